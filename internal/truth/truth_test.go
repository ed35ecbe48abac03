//go:build linux && cgo

// Package truth_test holds what the programs tell against what was planted. Each row of the table is a
// claim: a test on the planted device of verbs/ibv (scripts/fake), what it must tell, and by how much it may
// differ. A new figure enters by a row.
//
//	go test ./internal/truth -v                                       # a sample, as in 'make test'
//	GOBW_ALL=1 go test ./internal/truth -v -args -out results/truth.txt
package truth_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gobw/gobw/internal/cli"
	"github.com/gobw/gobw/internal/cli/output"
	"github.com/gobw/gobw/internal/testrun"
	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/figure"
	"github.com/gobw/gobw/scripts/fakeverbs"
)

var table = flag.String("out", "", "write the table to this file")

// claim is a row of the table: a test, and what must be told of it.
type claim struct {
	what    string // the figure, and what is planted
	planted string // on the device: "REQUEST_NS=1000 MOVE=0"
	run     string // commands, with ';' between: see bench.measure
	beside  bool   // programs that want all processors run beside it, and nothing runs ahead of them
	exit    int    // of the last command
	told    func(r *result) float64
	truth   float64
	low     float64 // bounds of told over truth; both 0: exactly
	high    float64
	sample  bool // also in 'make test'
}

// result is what the commands of a claim told.
type result struct {
	*report.Document          // the last one saved
	texts            []string // standard output and error of each command
	text             string   // of the last
	code             int
	dir              string
}

// first is a figure of the first record.
func first(of func(r *report.Record) float64) func(*result) float64 {
	return func(r *result) float64 {
		if len(r.Records) == 0 {
			return math.NaN()
		}
		return of(&r.Records[0])
	}
}

// named is a figure by its name in expectations, in its unit: Gb/s, Mmsg/s, us.
func named(name string) func(*result) float64 {
	f := figure.Of(name)
	return first(func(r *report.Record) float64 {
		v, missing := f.Get(r)
		if missing != "" {
			return math.NaN()
		}
		return v * f.Scale
	})
}

// number is the first number behind a text of what was printed.
func number(behind string) func(*result) float64 {
	pattern := regexp.MustCompile(`(?s)` + behind + `\s*([-+0-9.]+)`)
	return func(r *result) float64 {
		m := pattern.FindStringSubmatch(r.text)
		if m == nil {
			return math.NaN()
		}
		v, _ := strconv.ParseFloat(strings.TrimSuffix(m[1], "."), 64)
		return v
	}
}

// says is 1 where a text is in what was printed.
func says(text string) func(*result) float64 {
	return func(r *result) float64 {
		return map[bool]float64{true: 1}[strings.Contains(strings.Join(strings.Fields(r.text), " "), text)]
	}
}

func code(r *result) float64 { return float64(r.code) }

// bench is what the tests of a run share: the programs and the library.
type bench struct{ programs, library string }

var build = sync.OnceValues(func() (b bench, err error) { //nolint:gochecknoglobals // built once
	if b.programs, err = os.MkdirTemp("", "truth"); err != nil {
		return b, err
	}
	b.library = b.programs
	if _, err = fakeverbs.Build(b.library, nil); err != nil {
		return b, err
	}
	self, err := os.Executable()
	for _, program := range []string{"gobw", "golat", "ib_read_lat"} {
		err = errors.Join(err, os.Symlink(self, filepath.Join(b.programs, program)))
	}
	return b, err
})

// TestMain lets the test binary be the programs of the table, and the other end of --loopback.
func TestMain(m *testing.M) {
	name := filepath.Base(os.Args[0])
	if len(os.Args) > 1 && os.Args[1] == "serve" {
		name = "gobw"
	}
	if !strings.HasSuffix(name, ".test") {
		//nolint:forbidigo // this binary is the program here
		os.Exit(cli.Main(append([]string{name}, os.Args[1:]...), output.StandardStreams()))
	}
	flag.Parse()
	status := m.Run()
	if b, err := build(); err == nil || b.programs != "" {
		_ = os.RemoveAll(b.programs)
	}
	os.Exit(status) //nolint:forbidigo // it is what a TestMain does
}

// ahead is what starts a command before all normal programs, where that is allowed: the device's
// own clock goes on while a tool waits.
var ahead = sync.OnceValue(func() []string { //nolint:gochecknoglobals // asked once
	if exec.Command("chrt", "-r", "1", "true").Run() == nil {
		return []string{"chrt", "-r", "1"}
	}
	return nil
})

// measure runs the commands of a claim. A test runs with --loopback on the planted device, unless it says -d, and
// is saved as 1.json, 2.json and so on. A command may begin with what is planted for it alone: "REQUEST_NS=1100
// gobw write". DIR is their directory, and ~ a blank within a word. The command "nights" lets each saved result
// have begun a day after the one before.
func (b bench) measure(t *testing.T, c *claim) *result {
	t.Helper()
	r := &result{Document: &report.Document{}, dir: t.TempDir()}
	if c.beside {
		defer hogs(t)()
	}
	saved := 0
	for command := range strings.SplitSeq(c.run, ";") {
		words := strings.Fields(strings.ReplaceAll(command, "DIR", r.dir))
		env := append(os.Environ(),
			"PATH="+b.programs+":"+os.Getenv("PATH"), "LD_LIBRARY_PATH="+b.library,
			"FAKEVERBS_ARENA="+filepath.Join(r.dir, "arena"), "FAKEVERBS_SYSFS="+r.dir)
		for planted := range strings.FieldsSeq(c.planted) {
			env = append(env, "FAKEVERBS_"+planted)
		}
		for ; strings.Contains(words[0], "="); words = words[1:] {
			env = append(env, "FAKEVERBS_"+words[0])
		}
		for i := range words {
			words[i] = strings.ReplaceAll(words[i], "~", " ")
		}
		if words[0] == "nights" {
			nights(t, r.dir, saved)
			continue
		}
		if tests := words[0] != "gobw" ||
			slices.Contains([]string{"write", "read", "send", "atomic", "flush", "noncontig"}, words[1]); tests &&
			!strings.HasPrefix(words[0], "ib_") {
			if !slices.Contains(words, "--resume") {
				saved++
			}
			words = append(words, "--loopback", "--peer-timeout", "30s", "--save",
				filepath.Join(r.dir, strconv.Itoa(saved)+".json"))
			if !slices.Contains(words, "-d") {
				words = append(words, "-d", "fake0")
			}
		}
		b.start(t, r, words, env, !c.beside)
	}
	for _, name := range []string{".json", ".partial.json"} {
		if d, err := report.Load(filepath.Join(r.dir, strconv.Itoa(saved)+name)); err == nil {
			r.Document = d
		}
	}
	return r
}

// start runs one command; of perftest's names, the server, too.
func (b bench) start(t *testing.T, r *result, words, env []string, first bool) {
	t.Helper()
	words[0] = filepath.Join(b.programs, words[0])
	command := func(words ...string) *exec.Cmd {
		if first {
			words = append(slices.Clone(ahead()), words...)
		}
		cmd := exec.Command(words[0], words[1:]...)
		cmd.Env, cmd.Dir = env, r.dir
		return cmd
	}
	if strings.HasPrefix(filepath.Base(words[0]), "ib_") {
		server := command(append(slices.Clone(words), "-d", "fake0", "-p", "18533")...)
		if err := server.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = server.Process.Kill(); _ = server.Wait() }()
		time.Sleep(500 * time.Millisecond) //nolint:forbidigo // a perftest client does not wait for its server
		words = append(words, "-d", "fake0", "-p", "18533", "127.0.0.1")
	}
	out, err := command(words...).CombinedOutput()
	r.code = 0
	if e := (*exec.ExitError)(nil); errors.As(err, &e) {
		r.code = e.ExitCode()
	} else if err != nil {
		t.Fatal(err)
	}
	r.text = string(out)
	r.texts = append(r.texts, r.text)
}

// hogs lets programs run that want all processors, until the function that it returns is called.
func hogs(t *testing.T) (end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for range 2 * runtime.NumCPU() {
		all.Go(func() { _ = exec.CommandContext(ctx, "sh", "-c", "while :; do :; done").Run() })
	}
	return func() { cancel(); all.Wait() }
}

func nights(t *testing.T, dir string, saved int) {
	t.Helper()
	for n := 1; n <= saved; n++ {
		name := filepath.Join(dir, strconv.Itoa(n)+".json")
		d, err := report.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		d.Started = time.Date(2026, 1, n, 2, 0, 0, 0, time.UTC)
		var text bytes.Buffer
		if err := errors.Join(report.Write(&text, d), os.WriteFile(name, text.Bytes(), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
}

// near tells whether what was told is within the claim's bounds.
func (c *claim) near(told float64) bool {
	if c.low == 0 && c.high == 0 {
		return told == c.truth
	}
	return told >= c.low*c.truth && told <= c.high*c.truth
}

// short tells how often a command stands in a row.
func short(run string) string {
	var out []string
	times := 1
	for command := range strings.SplitSeq(run, ";") {
		if len(out) > 0 && strings.HasSuffix(out[len(out)-1], command) {
			times++
			out[len(out)-1] = fmt.Sprintf("%d times %s", times, command)
			continue
		}
		out, times = append(out, command), 1
	}
	return strings.Join(out, "; ")
}

const tries = 3 // of 'make test-all': the machine is not ours alone

// built is what build makes, without which nothing can be tried.
func built(t *testing.T) bench {
	t.Helper()
	b, err := build()
	if errors.Is(err, fakeverbs.ErrAbsent) {
		testrun.Missing(t, err.Error())
	} else if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestTruth(t *testing.T) {
	b := built(t)
	rows := &bytes.Buffer{}
	fmt.Fprintf(rows, "%-62s %14s %14s %9s  %s\n", "claim", "planted", "told", "bound", "verdict")
	wrong := 0
	for _, c := range claims() {
		if !c.sample && !testrun.Whole() {
			continue
		}
		t.Run(c.what, func(t *testing.T) {
			var told float64
			var r *result
			var before []string // of each attempt that was wrong: whether the program had doubts itself
			for attempt := 1; ; attempt++ {
				r = b.measure(t, &c)
				told = c.told(r)
				good := c.near(told) && r.code == c.exit
				if good {
					testrun.Later(t, t.Name(), attempt)
				}
				if good || attempt == tries || !testrun.Whole() {
					break
				}
				doubt := "no note"
				if says("disturbed:")(r) == 1 {
					doubt = "disturbed"
				}
				before = append(before, fmt.Sprintf("%.6g, %s", told, doubt))
			}
			verdict := "true"
			if !c.near(told) || r.code != c.exit {
				wrong++
				verdict = "WRONG"
				t.Errorf("%s\n%s %s: told %v, planted %v (%v to %v of it), exit code %d, want %d\n%s", c.what, c.planted, c.run,
					told, c.truth, c.low, c.high, r.code, c.exit, r.text)
			}
			if len(before) > 0 {
				verdict += " (before: " + strings.Join(before, "; ") + ")"
			}
			bound := "exact"
			if c.low != 0 || c.high != 0 {
				bound = fmt.Sprintf("%g…%g", c.low, c.high)
			}
			fmt.Fprintf(rows, "%-62s %14.6g %14.6g %9s  %s\n    %s %s\n", c.what, c.truth, told, bound, verdict, c.planted,
				short(c.run))
		})
	}
	fmt.Fprintf(rows, "%d wrong\n", wrong)
	if t.Log("\n" + rows.String()); *table != "" {
		head := "What the programs tell of planted truths. 'told' must be within the bounds, " +
			"as a share of what is planted.\n" +
			"$ GOBW_ALL=1 go test ./internal/truth -v -args -out results/truth.txt\n\n"
		if err := os.WriteFile(*table, []byte(head+rows.String()), 0o600); err != nil {
			t.Error(err)
		}
	}
}
