//go:build linux && cgo

package ibv

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/gobw/gobw/verbs"
)

// TestHowQueuesAreMade reads from the library's trace by which call completion queues are made: as perftest 6.29 does
// (create_reg_cqs), by ibv_create_cq_ex without flags, and by ibv_create_cq where that is not supported. Time stamps
// are refused where the device or an old library has none.
func TestHowQueuesAreMade(t *testing.T) {
	const plain, stamped, old = "create_cq_ex 0", "create_cq_ex 0x8f", "create_cq"
	for _, tt := range []struct {
		name     string
		settings map[string]string
		stamps   bool
		want     string // the last call that the library saw; empty: none
		err      error
	}{
		{"as perftest", nil, false, plain, nil},
		{"the driver does not have it", map[string]string{"FAULTS": "create_cq_ex=95"}, false, old, nil},
		{"the driver has no memory", map[string]string{"FAULTS": "create_cq_ex=12"}, false, plain, syscall.ENOMEM},
		{"a library of before 2013", map[string]string{"CONTEXT": "0"}, false, old, nil},
		{"a context that ends before it", map[string]string{"CONTEXT": "112"}, false, old, nil},
		{"stamps", map[string]string{"CLOCK": "156250"}, true, stamped, nil},
		{"stamps, no clock", nil, true, "", verbs.ErrUnsupported},
		{
			"stamps, a library of before 2013",
			map[string]string{"CLOCK": "156250", "CONTEXT": "0"},
			true,
			"", verbs.ErrUnsupported,
		},
		{
			"stamps, a context that ends before it",
			map[string]string{"CLOCK": "156250", "CONTEXT": "112"},
			true, "",
			syscall.EOPNOTSUPP,
		},
		{
			"stamps, the driver refuses the flag",
			map[string]string{"CLOCK": "156250", "FAULTS": "create_cq_ex=95"},
			true,
			stamped, syscall.EOPNOTSUPP,
		},
		{
			"stamps, the driver overlooks the flag",
			map[string]string{"CLOCK": "156250", "STAMPLESS": "1"},
			true, stamped,
			syscall.EOPNOTSUPP,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			trace := filepath.Join(t.TempDir(), "trace")
			d := openFake(t, fakeVerbs(t, tt.settings)) // it makes queues, too, to see what goes inline
			t.Setenv("FAKEVERBS_TRACE", trace)
			cq, err := d.CreateCQ(verbs.CompletionQueueOptions{Timestamps: tt.stamps})
			if !errors.Is(err, tt.err) {
				t.Errorf("%v, want %v", err, tt.err)
			}
			if err == nil {
				closeLater(t, cq)
			}
			text, _ := os.ReadFile(trace)
			lines := strings.Split(strings.TrimSpace(string(text)), "\n")
			if got := lines[len(lines)-1]; got != tt.want {
				t.Errorf("made by %q, want %q", lines, tt.want)
			}
		})
	}
}
