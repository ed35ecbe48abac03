//go:build !linux || !cgo

package ibv

import (
	"errors"
	"testing"

	"github.com/gobw/gobw/verbs"
)

func TestUnavailable(t *testing.T) {
	_, devices := New().Devices()
	_, open := New().Open("mlx5_0")
	_, library := New().Library()
	for _, err := range []error{devices, open, library} {
		if !errors.Is(err, verbs.ErrUnsupported) || verbs.RemedyOf(err) == "" {
			t.Errorf("error %v, remedy %q: want ErrUnsupported and a remedy", err, verbs.RemedyOf(err))
		}
	}
}
