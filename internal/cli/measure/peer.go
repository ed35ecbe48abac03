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
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/report/plain"
)

// PeerFlags say who is at the other end.
type PeerFlags struct {
	Loopback    bool
	port        int
	source      string
	peerTimeout string
	wait        string
	tokenFile   string
	bound       bool
}

// Bind adds the flags to a command.
func (f *PeerFlags) Bind(fs *pflag.FlagSet) {
	f.bound = true
	fs.BoolVar(&f.Loopback, "loopback", false, "run both ends on this machine")
	fs.IntVarP(&f.port, "port", "p", control.DefaultPort, "TCP port of the server")
	fs.StringVar(&f.source, "source", "", "connect from local IP `ADDRESS`")
	fs.StringVar(&f.peerTimeout, "peer-timeout", "3s", "give up if the peer is silent for this `TIME`")
	fs.StringVar(&f.wait, "wait", "0s", "wait up to this `TIME` for a server that is absent or busy")
	fs.StringVar(&f.tokenFile, "token-file", "", "prove to the server that this end has the secret in `FILE`")
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
}

// Config checks the flags and names all mistakes at once.
func (f *PeerFlags) Config(tool string, args []string) (PeerConfig, error) {
	c := PeerConfig{Loopback: f.Loopback, Port: f.port}
	var wrong cmdline.Faults
	switch {
	case len(args) > 1:
		wrong.Note(fmt.Errorf("%d hosts (%s): want one", len(args), strings.Join(args, ", ")))
	case len(args) == 1 && f.Loopback:
		wrong.Note(fmt.Errorf("--loopback runs both ends here: leave out the host %q", args[0]))
	case len(args) == 1:
		c.Host = args[0]
		if host, port, err := net.SplitHostPort(c.Host); err == nil {
			wrong.Note(fmt.Errorf("host %q: give the port by its flag: %s --port (-p) %s", c.Host, host, port))
		} else if _, err := netip.ParseAddr(c.Host); err != nil && strings.Contains(c.Host, ":") {
			wrong.Note(fmt.Errorf("host %q: want a name or an address; --port (-p) names another port", c.Host))
		}
	case !f.Loopback:
		wrong.Note(fmt.Errorf("no host: name the host that runs '%s serve', or give --loopback", tool))
	}
	wrong.Range("--port (-p)", f.port, 1, 65535)
	var err error
	c.Token, err = cmdline.ReadToken(f.tokenFile, "copy the file of the server")
	wrong.Note(cmdline.Prefixed("--token-file", err))
	if f.source != "" {
		c.Source, err = netip.ParseAddr(f.source)
		wrong.Note(cmdline.Prefixed("--source", err))
	}
	c.Timeout, err = plan.ParseSeconds(f.peerTimeout)
	wrong.If(err != nil || c.Timeout <= 0, "--peer-timeout %q: want more than 0 seconds", f.peerTimeout)
	c.Wait, err = plan.ParseSeconds(f.wait)
	wrong.Note(cmdline.Prefixed("--wait", err))
	return c, errors.Join(wrong...)
}

// Serve is what to type on the other host.
func (c PeerConfig) Serve(tool string) string {
	return tool + " serve" + plain.When(c.Port != control.DefaultPort, " -p %d", c.Port) + "   # on " + c.Host
}

// PeerGroup is their heading in the help.
func PeerGroup() cmdline.FlagGroup {
	return cmdline.FlagGroup{Title: "Other end", Names: []string{"peer", "loopback", "port", "source", "peer-timeout", "wait", "token-file"}}
}

// PortTaken adds to an error of listening what to do about a port in use, or about an address of another machine.
func PortTaken(err error) error {
	if strings.Contains(err.Error(), "address already in use") {
		return fmt.Errorf("%w: another server runs here; stop it, or choose a port with -p", err)
	}
	if errors.Is(err, syscall.EADDRNOTAVAIL) {
		return fmt.Errorf("%w; 'ip address' shows the addresses of this machine", err)
	}
	return err
}
