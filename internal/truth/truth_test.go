//go:build linux && cgo

// Package truth_test holds what the programs tell against what was planted. Each row of the table is a claim: a test on the planted
// device of verbs/ibv (scripts/fake), what it must tell, and by how much it may differ. A new figure enters by a row.
//
//	go test ./internal/truth -v                                       # a sample, as in 'make test'
//	GOBW_ALL=1 go test ./internal/truth -v -args -out results/truth.txt
package truth_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
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
	"github.com/gobw/gobw/verbs/ibv/fakeverbs"
)

var table = flag.String("out", "", "write the table to this file")

// claim is a row of the table: a test, and what must be told of it.
type claim struct {
	what    string // the figure, and what is planted
	planted string // on the device: "REQUEST_NS=1000 MOVE=0"
	run     string // "gobw write -s 64 -n 20000"; it runs with --loopback on the planted device, unless it says -d
	exit    int
	told    func(r *result) float64
	truth   float64
	low     float64 // bounds of told over truth; both 0: exactly
	high    float64
	sample  bool // also in 'make test'
}

// result is what a test told.
type result struct {
	*report.Document
	text string // standard output and error
	code int
	dir  string
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
		os.Exit(cli.Main(append([]string{name}, os.Args[1:]...), output.StandardStreams())) //nolint:forbidigo // this binary is the program here
	}
	flag.Parse()
	status := m.Run()
	if b, err := build(); err == nil || b.programs != "" {
		_ = os.RemoveAll(b.programs)
	}
	os.Exit(status) //nolint:forbidigo // it is what a TestMain does
}

// ahead is what starts a command before all normal programs, where that is allowed: the device's own clock goes on while a tool waits.
var ahead = sync.OnceValue(func() []string { //nolint:gochecknoglobals // asked once
	if exec.Command("chrt", "-r", "1", "true").Run() == nil {
		return []string{"chrt", "-r", "1"}
	}
	return nil
})

func (b bench) measure(t *testing.T, c *claim) *result {
	t.Helper()
	r := &result{Document: &report.Document{}, dir: t.TempDir()}
	file := filepath.Join(r.dir, "result.json")
	words := strings.Fields(strings.ReplaceAll(c.run, "DIR", r.dir))
	for i := range words {
		words[i] = strings.ReplaceAll(words[i], "~", " ") // within a word
	}
	words[0] = filepath.Join(b.programs, words[0])
	ours := !strings.HasPrefix(filepath.Base(words[0]), "ib_")
	if ours && words[1] != "search" && words[1] != "compare" {
		words = append(words, "--loopback", "--peer-timeout", "30s", "--save", file)
		if !slices.Contains(words, "-d") {
			words = append(words, "-d", "fake0")
		}
	}
	env := append(os.Environ(), "LD_LIBRARY_PATH="+b.library, "FAKEVERBS_ARENA="+filepath.Join(r.dir, "arena"), "FAKEVERBS_SYSFS="+r.dir)
	for planted := range strings.FieldsSeq(c.planted) {
		env = append(env, "FAKEVERBS_"+planted)
	}
	start := func(words ...string) *exec.Cmd {
		words = append(slices.Clone(ahead()), words...)
		cmd := exec.Command(words[0], words[1:]...)
		cmd.Env, cmd.Dir = env, r.dir
		return cmd
	}
	if !ours {
		server := start(append(slices.Clone(words), "-d", "fake0", "-p", "18533")...)
		if err := server.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = server.Process.Kill(); _ = server.Wait() }()
		time.Sleep(500 * time.Millisecond) //nolint:forbidigo // a perftest client does not wait for its server
		words = append(words, "-d", "fake0", "-p", "18533", "127.0.0.1")
	}
	out, err := start(words...).CombinedOutput()
	if e := (*exec.ExitError)(nil); errors.As(err, &e) {
		r.code = e.ExitCode()
	} else if err != nil {
		t.Fatal(err)
	}
	r.text = string(out)
	for _, name := range []string{file, strings.TrimSuffix(file, ".json") + ".partial.json"} {
		if d, err := report.Load(name); err == nil {
			r.Document = d
		}
	}
	return r
}

// near tells whether what was told is within the claim's bounds.
func (c *claim) near(told float64) bool {
	if c.low == 0 && c.high == 0 {
		return told == c.truth
	}
	return told >= c.low*c.truth && told <= c.high*c.truth
}

const tries = 3 // of 'make test-all': the machine is not ours alone

func TestTruth(t *testing.T) {
	b, err := build()
	if errors.Is(err, fakeverbs.ErrAbsent) {
		testrun.Missing(t, err.Error())
	} else if err != nil {
		t.Fatal(err)
	}
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
			}
			verdict := "true"
			if !c.near(told) || r.code != c.exit {
				wrong++
				verdict = "WRONG"
				t.Errorf("%s\n%s %s: told %v, planted %v (%v to %v of it), exit code %d, want %d\n%s", c.what, c.planted, c.run, told, c.truth, c.low, c.high, r.code, c.exit, r.text)
			}
			bound := "exact"
			if c.low != 0 || c.high != 0 {
				bound = fmt.Sprintf("%g…%g", c.low, c.high)
			}
			fmt.Fprintf(rows, "%-62s %14.6g %14.6g %9s  %s\n    %s %s\n", c.what, c.truth, told, bound, verdict, c.planted, c.run)
		})
	}
	fmt.Fprintf(rows, "%d wrong\n", wrong)
	if t.Log("\n" + rows.String()); *table != "" {
		head := "What the programs tell of planted truths. 'told' must be within the bounds, as a share of what is planted.\n" +
			"$ GOBW_ALL=1 go test ./internal/truth -v -args -out results/truth.txt\n\n"
		if err := os.WriteFile(*table, []byte(head+rows.String()), 0o600); err != nil {
			t.Error(err)
		}
	}
}
