package measure

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"github.com/gobw/gobw/internal/cli/cmdline"
	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/internal/control/connect"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/report/plain"
)

// PeerFlags say who is at the other end.
type PeerFlags struct {
	PeerConfig
	wrong cmdline.Faults // of what was typed
	bound bool
}

// Bind adds the flags to a command.
func (f *PeerFlags) Bind(fs *pflag.FlagSet) {
	f.bound = true
	fs.BoolVar(&f.Loopback, "loopback", false, "run both ends on this machine")
	fs.IntVarP(&f.Port, "port", "p", control.DefaultPort, "TCP port of the server")
	cmdline.Parsed(fs, &f.wrong, &f.Source, "source", "", "", "connect from local IP `ADDRESS`", netip.ParseAddr)
	cmdline.Parsed(fs, &f.wrong, &f.Timeout, "peer-timeout", "", "3s", "give up if the peer is silent for this `TIME`",
		plan.ParseTime)
	cmdline.Parsed(fs, &f.wrong, &f.Wait, "wait", "", "0s", "wait up to this `TIME` for a server that is absent or busy",
		plan.ParseSeconds)
	cmdline.Parsed(fs, &f.wrong, &f.Token, "token-file", "", "", "`FILE` with the secret of the server",
		func(path string) ([]byte, error) {
			return cmdline.ReadToken(path, "copy the file of the server")
		})
	cmdline.Group(fs, "Other end")
}

// PeerConfig is who is at the other end.
type PeerConfig struct {
	Host     string // empty: Loopback
	Loopback bool
	Port     int
	Source   netip.Addr
	Timeout  time.Duration
	Wait     time.Duration
	Token    []byte // a shared secret that both ends prove; nil: none
	// SegmentBytes is the most that a packet of the control connection carries; 0: what the path takes.
	SegmentBytes int
}

// Config checks the flags.
func (f *PeerFlags) Config(wrong *cmdline.Faults, tool string, args []string) PeerConfig {
	c := f.PeerConfig
	*wrong = append(*wrong, f.wrong...)
	switch {
	case len(args) > 1:
		wrong.Note(fmt.Errorf("%d hosts (%s): want one", len(args), strings.Join(args, ", ")))
	case len(args) == 1 && f.Loopback:
		wrong.Note(fmt.Errorf("--loopback runs both ends here: leave out the host %q", args[0]))
	case len(args) == 1 && cmdline.IsFlag(args[0]):
		wrong.Add("host %q: no name begins with a dash", args[0])
	case len(args) == 1:
		c.Host = control.Host(args[0])
		if host, port, err := net.SplitHostPort(c.Host); err == nil {
			wrong.Note(fmt.Errorf("host %q: give the port by its flag: %s --port (-p) %s", c.Host, host, port))
		} else if _, err := netip.ParseAddr(c.Host); err != nil && strings.Contains(c.Host, ":") {
			wrong.Note(fmt.Errorf("host %q: want a name or an address; --port (-p) names another port", c.Host))
		}
	case !f.Loopback:
		wrong.Note(fmt.Errorf("no host: name the host that runs '%s serve', or give --loopback", tool))
	}
	wrong.Range("--port (-p)", f.Port, 1, 65535)
	return c
}

// Serve is what to type on the other host.
func (c PeerConfig) Serve(tool string) string {
	return tool + " serve" + plain.When(c.Port != control.DefaultPort, " -p %d", c.Port) + "   # on " + c.Host
}

// PortTaken adds to an error of listening what to do if the port is in use or the address is not of this machine.
func PortTaken(err error) error {
	if strings.Contains(err.Error(), "address already in use") {
		return fmt.Errorf("%w: another server runs here; stop it, or choose a port with -p", err)
	}
	if op, is := errors.AsType[*net.OpError](err); is && errors.Is(err, syscall.EADDRNOTAVAIL) &&
		control.AddrOf(op.Addr).Addr().IsLoopback() {
		return fmt.Errorf("%w; %s", err, connect.LoopbackDown)
	}
	if errors.Is(err, syscall.EADDRNOTAVAIL) {
		return fmt.Errorf("%w; 'ip address' shows the addresses of this machine", err)
	}
	return err
}
