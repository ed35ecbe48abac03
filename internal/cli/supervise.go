package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/gobw/gobw/internal/child"
	"github.com/gobw/gobw/internal/cli/exit"
	"github.com/gobw/gobw/verbs/ibv"
)

const (
	// lastResort is how long a command may take to end after a signal before it is ended outright.
	lastResort = 15 * time.Second
	// sameSignal is for how long a further signal counts as the first one's echo: timeout(1) signals the process and its
	// group, a terminal and a supervisor may both do.
	sameSignal = 500 * time.Millisecond
	// lookEvery is how often a command looks whether a call into a driver returns.
	lookEvery = time.Second
)

// After how many looks a call that has not returned is named, and ends the command; and how many a command that is to
// end waits for it.
const (
	looksToName = 10
	looksToEnd  = 60
	looksAtEnd  = 3
)

// supervise returns a context that the first SIGINT, SIGTERM or SIGHUP ends, with the signal as the cause; one that
// comes later than sameSignal kills the process as if nobody listened. A call into libibverbs that does not return is
// named, and ends the context at last. A command that does not end then is ended by quit: at once where such a call
// holds it, and after lastResort otherwise.
func supervise(tool string, to io.Writer, quit func(error)) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) // else the first write to a closed pipe ends the process
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // by nohup
		signal.Notify(signals, syscall.SIGHUP)
	}
	done := make(chan struct{})
	go func() {
		var calls ibv.Watch
		var echoed, late <-chan time.Time
		ending := 0 // looks since the context ended
		look := time.NewTicker(lookEvery)
		defer look.Stop()
		end := func(why error) {
			if ctx.Err() == nil {
				cancel(why)
				echoed, late = time.After(sameSignal), time.After(lastResort)
			}
		}
		for {
			select {
			case <-done:
				return
			case s := <-signals:
				end(exit.SignalError{Signal: s})
			case <-echoed:
				signal.Stop(signals)
			case <-late:
				quit(context.Cause(ctx))
			case <-look.C:
				call, looks := calls.Look()
				hangs := fmt.Errorf("%s "+child.NotReturned+" %d s", call, looks)
				if ctx.Err() != nil {
					ending++
				}
				switch pins := strings.HasPrefix(call, "ibv_reg_"); { // much memory takes long
				case ending >= looksAtEnd && looks >= looksAtEnd:
					exit.Complain(to, tool, errors.Join(context.Cause(ctx), hangs))
					quit(context.Cause(ctx))
				case looks == looksToName:
					fmt.Fprintf(to, "%s: %v: the driver or the device may hang: see dmesg. Ctrl-C ends this\n", tool, hangs)
				case looks == looksToEnd && !pins:
					end(exit.With(exit.Setup, hangs))
				}
			}
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(done)
		cancel(nil)
	}
}
