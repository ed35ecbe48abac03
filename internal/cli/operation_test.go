package cli

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/gobw/gobw/internal/cli/cmd/operation"
)

func parsedWrite(args ...string) (operation.Config, error) {
	return operation.Parse(append([]string{"gobw", "write", "--loopback"}, args...),
		func(*pflag.FlagSet) error { return nil })
}

// What judges does not take the software device for a NIC: each way to ask for a verdict is strict about the device.
func TestJudgingIsStrictAboutTheDevice(t *testing.T) {
	for _, tt := range []struct {
		args   []string
		strict bool
	}{
		{nil, false},
		{[]string{"--expect", "bw >= 1Gb/s"}, true},
	} {
		if c, err := parsedWrite(tt.args...); err != nil || c.Device.Strict != tt.strict {
			t.Errorf("%v: strict %v, %v; want %v", tt.args, c.Device.Strict, err, tt.strict)
		}
	}
}

// What was wrong is told once: a size that cannot be read is not also a size of 0.
func TestWrongSizeIsToldOnce(t *testing.T) {
	for _, size := range []string{"abc", "0", "1:x"} {
		if _, err := parsedWrite("-s", size); err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("-s %s: %v, want one line", size, err)
		}
	}
}
