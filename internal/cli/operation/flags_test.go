package operation

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/gobw/gobw/internal/plan"
)

// What judges does not take the software device for a NIC: each way to ask for a verdict is strict about the device.
func TestJudgingIsStrictAboutTheDevice(t *testing.T) {
	for _, tt := range []struct {
		args   []string
		strict bool
	}{
		{nil, false},
		{[]string{"--expect", "bw >= 1Gb/s"}, true},
	} {
		var f flags
		fs := pflag.NewFlagSet("write", pflag.ContinueOnError)
		f.bind(fs, plan.Write, plan.Bandwidth)
		if err := fs.Parse(append([]string{"--loopback"}, tt.args...)); err != nil {
			t.Fatal(err)
		}
		c, err := f.config("gobw", fs.Args())
		if err != nil || c.Device.Strict != tt.strict {
			t.Errorf("%v: strict %v, %v; want %v", tt.args, c.Device.Strict, err, tt.strict)
		}
	}
}

// What was wrong is told once: a size that cannot be read is not also a size of 0.
func TestWrongSizeIsToldOnce(t *testing.T) {
	for _, args := range [][]string{{"-s", "abc"}, {"-s", "0"}, {"-s", "1:x"}} {
		var f flags
		fs := pflag.NewFlagSet("write", pflag.ContinueOnError)
		f.bind(fs, plan.Write, plan.Bandwidth)
		if err := fs.Parse(append([]string{"--loopback"}, args...)); err != nil {
			t.Fatal(err)
		}
		_, err := f.config("gobw", fs.Args())
		if err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v: %v, want one line", args, err)
		}
	}
}
