// Package ends is what the examples need beside verbs: how the two ends of a connection meet, how they tell each other
// what they must know, and how they end at an error. The programs in C have it in end.h. It is for the examples alone.
package ends

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/gobw/gobw/verbs"
)

// patience is how long an end waits for completions.
const patience = 20 * time.Second

// Conn is the connection of two ends by TCP. Its messages are JSON.
type Conn struct {
	net.Conn
	reader *json.Decoder
}

// Meet waits for the other end, or connects to a host. The environment variable PORT chooses another TCP port.
func Meet(host string) *Conn {
	port := cmp.Or(os.Getenv("PORT"), "18516")
	if host == "" {
		fmt.Fprintf(os.Stderr, "waiting: now start '%s HOST' at the other end, with the name of this host\n",
			filepath.Base(os.Args[0]))
		return newConn(Must(Must(net.Listen("tcp", ":"+port)).Accept()))
	}
	conn, err := net.Dial("tcp", net.JoinHostPort(host, port))
	if err != nil {
		fail("start the other end first:", err)
	}
	return newConn(conn)
}

func newConn(conn net.Conn) *Conn { return &Conn{conn, json.NewDecoder(conn)} }

// Here is the address of this end.
func (c *Conn) Here() netip.Addr { return c.LocalAddr().(*net.TCPAddr).AddrPort().Addr() }

// Swap sends a value to the other end, and returns the one that the other end sends.
func Swap[T any](c *Conn, mine T) (theirs T) {
	err := json.NewEncoder(c).Encode(mine)
	if err == nil {
		err = c.reader.Decode(&theirs)
	}
	if err != nil {
		fail("the other end is gone:", err)
	}
	return theirs
}

// Wait polls until so many requests have completed. The first that failed ends the program.
func Wait(cq verbs.CompletionQueue, completions int) {
	ctx, cancel := context.WithTimeoutCause(context.Background(), patience,
		fmt.Errorf("no completion in %v: was a request signaled? does the other end still run?", patience))
	defer cancel()
	Must(verbs.Await(ctx, cq, completions))
}

// Must is the value that a call returned.
func Must[T any](value T, err error) T {
	Check(err)
	return value
}

// Check ends the program at the first error, and says what to try.
func Check(err error) {
	if err != nil {
		fail(err, verbs.RemedyOf(err))
	}
}

func fail(words ...any) {
	fmt.Fprintln(os.Stderr, words...)
	os.Exit(1)
}
