package output

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/gobw/gobw/internal/cli/cmdline"
	"github.com/gobw/gobw/internal/cli/exit"
	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/plain"
)

// unfinished is where an unfinished result goes: beside the file of --save if that file exists, which stays until this
// result is finished.
func (c Config) unfinished() Config {
	c.Saves = slices.Clone(c.Saves)
	for i := range c.Saves {
		c.Saves[i].Path = c.Saves[i].draft
	}
	return c
}

// ToResume is the document from which --resume goes on: the unfinished one if there is one.
func (c Config) ToResume() string {
	if path := c.unfinished().Document(); regular(path) {
		return path
	}
	return c.Document()
}

// Previous is the result that --resume continues; nil without --resume. load returns nil for a file of another kind of
// result.
func Previous[T any](c Config, load func(path string) (*T, error)) (*T, error) {
	if !c.Resume || c.Document() == "" {
		return nil, nil //nolint:nilnil // from the start
	}
	path := c.ToResume()
	before, err := load(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, exit.With(exit.Usage, fmt.Errorf("--resume: there is no %s: leave --resume out to start", path))
	case err != nil:
		return nil, exit.With(exit.Usage, fmt.Errorf("--resume: %w", err))
	case before == nil:
		return nil,
			exit.With(exit.Usage, fmt.Errorf("--resume: %s holds another kind of result: name another file with --save", path))
	}
	return before, nil
}

// CheckSame refuses to continue the result of another command. It names the host and the flags that differ, as far as
// they decide what is measured. fresh are the command's flags without values, typed those of this command line.
func (c Config) CheckSame(command []string, fresh, typed *pflag.FlagSet) error {
	fresh.SetNormalizeFunc(cmdline.NormalizeFlag)
	if err := fresh.Parse(command[min(2, len(command)):]); err != nil {
		return fmt.Errorf("--resume: the command in %s is not valid: %w", c.ToResume(), err)
	}
	var differ []string
	if was, is := strings.Join(fresh.Args(), " "), strings.Join(typed.Args(), " "); was != is {
		differ = append(differ, fmt.Sprintf("the arguments were %q, are %q", was, is))
	}
	given := func(f *pflag.Flag) string {
		if f.Changed {
			return f.Value.String()
		}
		return "not given"
	}
	others := []string{
		"save", "resume", "format", "quiet", "expect", "accept", "leave-out", "line", "wait", "peer-timeout", "pcap",
		"label", "help",
	}
	fresh.VisitAll(func(f *pflag.Flag) {
		if is := typed.Lookup(f.Name); is != nil && !slices.Contains(others, f.Name) &&
			is.Value.String() != f.Value.String() {
			differ = append(differ, fmt.Sprintf("--%s was %s, is %s", f.Name, given(f), given(is)))
		}
	})
	if differ != nil {
		return fmt.Errorf("--resume: %s was measured otherwise: %s", filepath.Clean(c.ToResume()), strings.Join(differ, "; "))
	}
	return nil
}

// interrupted tells whether a file holds the result of an interrupted test. A partial file that cannot be read may be
// one.
func interrupted(path string) bool {
	b, err := report.ReadFile(path, report.MostBytes)
	var saved struct {
		Complete  *bool
		Records   []json.RawMessage
		Noncontig json.RawMessage
		Steps     []json.RawMessage // of a search
		Tests     []struct{ Document json.RawMessage }
		ExitCode  int `json:"exit_code"` // of a qualification
	}
	draft := strings.HasSuffix(path, ".partial.json")
	if errors.Is(err, fs.ErrNotExist) || err != nil && !draft {
		return false
	}
	if json.Unmarshal(b, &saved) != nil {
		return draft
	}
	measured := slices.ContainsFunc(saved.Tests,
		func(t struct{ Document json.RawMessage }) bool { return t.Document != nil })
	incomplete := saved.Complete != nil && !*saved.Complete
	return measured && (draft || saved.ExitCode > 128) || incomplete && len(saved.Records)+len(saved.Noncontig)+
		len(saved.Steps) > 0
}

// Keeper saves what was measured so far, for every command that measures for long. Saving takes less than a twentieth
// of the time. A save that fails is reported once and tried again at the next point. The last save, of the result,
// decides the exit code.
type Keeper struct {
	out    Streams
	draft  string // "": nothing is kept
	at     time.Time
	cost   time.Duration
	failed bool
}

// Keeper makes the keeper of a command. It keeps nothing in a pipe, a device or an open file such as /dev/stdout, which
// get the result alone.
func (c Config) Keeper(out Streams) *Keeper {
	draft := c.unfinished().Document()
	if _, err := os.Stat(draft); err == nil && !regular(draft) || draft != "" && opened(draft) {
		draft = ""
	}
	return &Keeper{out: out, draft: draft}
}

// KeepLast saves it now: nothing follows but the result.
func (k *Keeper) KeepLast(write func(w io.Writer) error) {
	k.at = time.Time{}
	k.keep(write, "")
}

// Keep saves it now, or not yet.
func (k *Keeper) Keep(write func(w io.Writer) error) {
	k.keep(write, "; the command goes on and tries again")
}

func (k *Keeper) keep(write func(w io.Writer) error, then string) {
	if k.draft == "" || time.Since(k.at) < 20*k.cost {
		return
	}
	began := time.Now()
	err := report.WriteFile(k.draft, write)
	k.at, k.cost = time.Now(), time.Since(began)
	if err != nil && !k.failed {
		k.failed = true
		fmt.Fprintf(k.out.Err, "not kept yet: %v%s\n", err, then)
	}
}

// DeliverPart delivers a result that may be unfinished. It says where an unfinished result is kept, and how to go on if
// the command has --resume. command nil: there is no --resume. Format empty: there is nothing to print. It names
// earlier results that it replaces.
//
//nolint:revive // a fact of the result
func (c Config) DeliverPart(out Streams, complete bool, command []string,
	write func(w io.Writer, format string) error,
) error {
	c.setAside(out, complete)
	if complete {
		return c.Deliver(out, write)
	}
	to := c.unfinished()
	err := to.Deliver(out, write)
	goesOn, path := c.kept && command != nil, to.Document()
	again := plain.JoinWords(slices.DeleteFunc(slices.Clone(command), func(a string) bool { return a == "--resume" }))
	kept := "kept in " + path
	if slices.ContainsFunc(exit.EachOf(err),
		func(e error) bool { f, is := errors.AsType[*report.FileError](e); return is && f.File == path }) {
		kept = path + " has what was saved before"
	}
	switch there := regular(path); {
	case there && (path != c.Document() || goesOn):
		fmt.Fprintf(out.Err, "%s%s%s\n", kept, plain.When(path != c.Document(), "; %s is as it was", c.Document()),
			plain.When(goesOn, "; to go on: %s --resume", again))
	case path == "" && goesOn && c.Format != "":
		fmt.Fprintf(out.Err, "%s; start with --save FILE.json: then --resume measures the rest\n",
			cmp.Or(plain.When(len(to.Saves) > 0, "--resume needs a .json file"), "nothing is saved"))
	}
	return err
}

// longRun is how long a result was measured that is kept beside the one that replaces it.
const longRun = time.Minute

// setAside tells which earlier results this one replaces. One that took long, or whose time nobody knows as that of a
// table, stays as FILE~.
func (c Config) setAside(out Streams, complete bool) { //nolint:revive // a fact of the result
	for _, s := range c.Saves {
		document := s.Format == "json"
		ours := document && (s.draft == s.Path || !complete) // there was none, or it stays where it is
		if c.Resume || ours || !regular(s.Path) {
			continue
		}
		var old struct{ Started, Finished time.Time }
		if document {
			b, _ := report.ReadFile(s.Path, report.MostBytes)
			_ = json.Unmarshal(b, &old) // nothing is known of what is no document
		}
		known, stays := !old.Started.IsZero(), ""
		if !known || old.Finished.Sub(old.Started) >= longRun {
			_ = os.Remove(s.Path + "~")
			at, err := filepath.EvalSymlinks(s.Path) // a link is written through
			stays = plain.When(err == nil && os.Link(at, s.Path+"~") == nil, ", which stays as %s~", s.Path)
		}
		if !c.Quiet || stays != "" {
			fmt.Fprintf(out.Err, "%s: replaces an earlier result%s%s\n", s.Path,
				plain.When(known, " of %s", old.Started.Local().Format(time.DateTime)), stays)
		}
	}
}
