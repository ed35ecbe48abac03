//go:build !linux || !cgo

package ibv

import (
	"fmt"
	"runtime"

	"github.com/gobw/gobw/verbs"
)

// Provider stands in for libibverbs where this binary cannot reach it.
type Provider struct{}

// New returns the provider.
func New() *Provider { return &Provider{} }

// Name is "ibv".
func (*Provider) Name() string { return "ibv" }

// Devices says why there are none.
func (*Provider) Devices() ([]verbs.DeviceName, error) { return nil, unavailable("list devices") }

// Open says why it cannot.
func (*Provider) Open(name string) (verbs.Device, error) {
	return nil, unavailable("open device " + name)
}

// Library says why there is none.
func (*Provider) Library() (Library, error) { return Library{}, unavailable("load libibverbs") }

// Watch looks at calls that are under way: there are none.
type Watch struct{}

// Look returns nothing.
func (*Watch) Look() (call string, looks int) { return "", 0 }

func unavailable(verb string) error {
	if runtime.GOOS != "linux" {
		return &verbs.Error{
			Verb: verb, Err: fmt.Errorf("libibverbs: %w on %s", verbs.ErrUnsupported, runtime.GOOS),
			Fix: "run on Linux, or use the software device (roce0)",
		}
	}
	return &verbs.Error{
		Verb: verb, Err: fmt.Errorf("libibverbs: %w: this binary was built with CGO_ENABLED=0", verbs.ErrUnsupported),
		Fix: "build with CGO_ENABLED=1 and a C compiler, or use the software device (roce0)",
	}
}
