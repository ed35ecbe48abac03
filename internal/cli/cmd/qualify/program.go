package qualify

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/gobw/gobw/internal/bench/machine"
	"github.com/gobw/gobw/internal/child"
	"github.com/gobw/gobw/internal/cli/exit"
	"github.com/gobw/gobw/internal/cli/measure"
	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/plain"
	"github.com/gobw/gobw/report/qualify"
	"github.com/gobw/gobw/verbs/roce"
)

// What a program of somebody else may take, if its plan does not say it.
const (
	programTimeout = time.Minute
	programMemory  = 1 << 30
)

// runProgram runs a program to its end. With --loopback it first starts the other end on this host, by the same words
// without the host, and tells both a free TCP port in the environment variable PORT.
func runProgram(ctx context.Context, t *planned, peer measure.PeerConfig) (*report.Document, error) {
	doc := &report.Document{
		Tool: "gobw", Version: machine.Version(), Started: time.Now().UTC(), Complete: true, Client: machine.Host(),
		Records: []report.Record{},
	}
	at := slices.Index(t.Words, qualify.ServerWord)
	program := &report.Program{}
	doc.Program = program
	memory := cmp.Or(t.Memory, programMemory)
	sent, err := os.CreateTemp("", "gobw-sent-")
	if err != nil {
		return nil, exit.With(exit.Setup, err)
	}
	defer func() { _, _ = sent.Close(), os.Remove(sent.Name()) }()
	env := []string{roce.EnvSent + "=" + sent.Name()}
	var server *child.Foreign
	host := peer.Host
	if at > 0 && peer.Loopback {
		port, err := freePort()
		if err != nil {
			return nil, exit.With(exit.Setup, err)
		}
		host, env = "127.0.0.1", append(env, "PORT="+strconv.Itoa(port))
		words := t.Server
		if words == nil {
			words = t.Words[:at]
		}
		if server, err = child.StartForeign(words, env, memory); err != nil {
			return notStarted(doc, words[0], t.Words[0], err)
		}
		defer server.End()
		server.Listens(ctx, port)
	}
	words := slices.Clone(t.Words)
	if at >= 0 {
		words[at] = host
	}
	client, err := child.StartForeign(words, env, memory)
	if err != nil {
		return notStarted(doc, words[0], t.Words[0], err)
	}
	defer client.End()
	code, signal, err := client.Wait(ctx)
	if err != nil {
		return nil, err
	}
	said := client.Err.String()
	if server != nil {
		soon, cancel := context.WithTimeoutCause(ctx, serverGrace,
			fmt.Errorf("the other end did not end within %v of this one", serverGrace))
		defer cancel()
		other, by, err := server.Wait(soon)
		switch {
		case code != 0: // what failed first is told, whatever the other end made of it
		case err != nil:
			return nil, err
		default:
			code, signal = other, by
		}
		said = cmp.Or(said, server.Err.String())
	}
	for line := range strings.Lines(client.Out.String()) {
		var object map[string]any
		if json.Unmarshal([]byte(line), &object) == nil && object != nil {
			program.Said = object
		}
	}
	told := io.LimitReader(sent, 1<<12) // a line for each device
	for n := uint64(0); err == nil; program.SentBytes += n {
		n = 0
		_, err = fmt.Fscanln(told, &n)
	}
	last := fmt.Sprintf("%.200s", said[strings.LastIndexByte(said, '\n')+1:])
	if signal > 0 {
		last = fmt.Sprintf("ended by signal %d (%v)", int(signal), signal) + plain.When(last != "", "; %s", last)
	}
	program.ExitCode, program.Output = code, last
	doc.Finished = time.Now().UTC()
	return doc, nil
}

// notStarted is the result of a program that is missing or is none: that is a failure of who was to write it. The
// program of a plan's key server, and what this host lacks, are a matter of the set-up.
func notStarted(doc *report.Document, name, own string, err error) (*report.Document, error) {
	var cause syscall.Errno
	codes := map[syscall.Errno]int{syscall.ENOENT: 127, syscall.ENOTDIR: 127, syscall.EACCES: 126, syscall.ENOEXEC: 126}
	code := 0
	if errors.As(err, &cause) && name == own {
		code = codes[cause]
	}
	if code == 0 {
		return nil, exit.With(exit.Setup, err)
	}
	folder, _ := os.Getwd()
	*doc.Program = report.Program{
		ExitCode: code, NotStarted: true, Output: fmt.Sprintf("%s in %s: %s", name, folder, child.NotStarted(name, err)),
	}
	doc.Finished = time.Now().UTC()
	return doc, nil
}

// prepareProgram has 'gobw run' build its library, if it must, before the time of the test begins. Without a library no
// program runs on this host, whoever wrote it.
func prepareProgram(ctx context.Context, t *planned) error {
	t.Timeout = cmp.Or(t.Timeout, programTimeout)
	if t.Words[0] != "gobw" {
		return nil
	}
	p, err := child.StartForeign([]string{"gobw", "run", "--print"}, nil, 1<<40)
	if err != nil {
		return exit.With(exit.Setup, err)
	}
	defer p.End()
	code, _, err := p.Wait(ctx)
	if err == nil && code != exit.Passed {
		err = errors.New(strings.TrimPrefix(strings.TrimSpace(p.Err.String()), "gobw: "))
	}
	return exit.With(exit.Setup, err)
}

// serverGrace is how much longer than the other end the one that was started first may run.
const serverGrace = 5 * time.Second

func freePort() (int, error) {
	l, err := net.Listen("tcp", ":0")
	if err != nil {
		return 0, err
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}
