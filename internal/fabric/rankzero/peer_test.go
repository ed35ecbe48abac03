package rankzero

import (
	"net"
	"testing"
	"time"

	"github.com/gobw/gobw/internal/control/frame"
	"github.com/gobw/gobw/internal/fabric"
)

// TestOrderOfOrders: an agent hears its orders as they were given, also those that
// waited for the answer to one before them.
func TestOrderOfOrders(t *testing.T) {
	const orders = 20
	here, there := net.Pipe()
	o := frame.Options{Bears: 5 * time.Second, Token: fabric.Key("job", "secret")}
	dialled := o
	dialled.Dialled = true
	agent := frame.New(there, dialled)
	heard := make(chan int, orders)
	met := make(chan error, 1)
	go func() {
		defer close(heard)
		_, err := agent.Meet(t.Context(), frame.Hello{}, 5*time.Second)
		met <- err
		for range orders {
			asked, err := frame.Expect[fabric.Orders](t.Context(), agent, fabric.KindOrder, fabric.MostBytes, 0)
			if err != nil || agent.Send(fabric.KindAnswer, fabric.Answer{}) != nil {
				return
			}
			heard <- asked.Rails[0].Rail
		}
	}()
	p := &peer{session: frame.New(here, o)}
	if _, err := p.session.Meet(t.Context(), frame.Hello{}, 5*time.Second); err != nil {
		t.Fatal(err)
	}
	if err := <-met; err != nil {
		t.Fatal(err)
	}
	p.start(func(*fabric.Orders, *fabric.Answer, error) {})
	for n := range orders {
		p.send(&fabric.Orders{Rails: []fabric.Order{{Rail: n}}, Most: fabric.MostAnswer})
	}
	next := 0
	for n := range heard {
		if n != next {
			t.Errorf("order %d came in place of order %d", n, next)
		}
		next++
	}
	if next != orders {
		t.Errorf("%d of %d orders came", next, orders)
	}
	agent.Abandon()
	p.end(frame.KindBye, "over")
}
