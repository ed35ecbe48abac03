package agent

import (
	"context"
	"testing"

	"github.com/gobw/gobw/internal/fabric"
)

// TestHostileOrders: an agent refuses orders for other rails than there may be.
func TestHostileOrders(t *testing.T) {
	a := &agent{workers: map[int]Worker{}, cfg: Config{Worker: func(int) Worker { return idle{} }}}
	for _, tt := range []struct {
		what  string
		rails []int
		good  bool
	}{
		{"two", []int{0, 1}, true},
		{"the last", []int{fabric.MostRails - 1}, true},
		{"one twice at once", []int{0, 1, 0}, false},
		{"one that is not there", []int{0, fabric.MostRails}, false},
		{"one below none", []int{-1}, false},
	} {
		var o fabric.Orders
		for _, rail := range tt.rails {
			o.Rails = append(o.Rails, fabric.Order{Rail: rail, Prepare: &fabric.PrepareOrder{}})
		}
		if got := a.do(t.Context(), o); (len(got.Rails) == len(tt.rails)) != tt.good {
			t.Errorf("%s: %+v", tt.what, got)
		}
	}
	if len(a.workers) != 3 {
		t.Errorf("%d workers", len(a.workers))
	}
}

// idle is a worker that does nothing.
type idle struct{}

func (idle) Do(context.Context, fabric.Order) fabric.Rail { return fabric.Rail{} }
func (idle) Close() error                                 { return nil }
