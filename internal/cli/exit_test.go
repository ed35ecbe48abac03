package cli

import (
	"bytes"
	"errors"
	"fmt"
	"go/scanner"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/gobw/gobw/internal/cli/exit"
	"github.com/gobw/gobw/verbs"
)

// TestRemedyNamesFlags holds that the programs add the flags to what the library advises.
func TestRemedyNamesFlags(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want string
	}{
		{
			&verbs.CompletionError{Device: "rxe0", Completion: verbs.Completion{Status: verbs.RetryExceeded}},
			"gobw doctor HOST",
		},
		{
			&verbs.Error{Verb: "create queue pair", Device: "rxe0", Err: syscall.EINVAL, Fix: "ask for less"},
			"ask for less; 'gobw devices DEVICE' shows the limits",
		},
		{
			&verbs.Error{Verb: "map huge pages", Device: "rxe0", Err: syscall.ENOMEM},
			"gobw: 'gobw devices DEVICE' shows the limits\n",
		},
		{&os.PathError{Op: "open", Path: "x", Err: syscall.EINVAL}, ""},
	} {
		var out bytes.Buffer
		exit.Complain(&out, "gobw", fmt.Errorf("measure: %w", tt.err))
		if got := out.String(); !strings.Contains(got, tt.want) || tt.want == "" && strings.Count(got, "\n") > 1 {
			t.Errorf("%q, want %q in it", got, tt.want)
		}
	}
}

// narrow is a terminal of 40 columns.
type narrow struct{ bytes.Buffer }

func (*narrow) Columns() int { return 40 }

// TestComplaintsFitTheTerminal wraps what is too wide, and leaves alone what shows the place of a mistake.
func TestComplaintsFitTheTerminal(t *testing.T) {
	var out narrow
	exit.Complain(&out, "gobw", errors.New("column 8: no figure\n  bw >=   foo\n          ^"))
	exit.Complain(&out, "gobw", errors.New("unknown flag: --margin; 'gobw version -h' lists all"))
	want := "gobw: column 8: no figure\n  bw >=   foo\n          ^\ngobw: unknown flag: " +
		"--margin;\n    'gobw version -h' lists all\n"
	if got := out.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestLibrarySpeaksNoFlags looks through the strings of verbs: a program that is not ours has none of our flags and
// commands.
func TestLibrarySpeaksNoFlags(t *testing.T) {
	ours := regexp.MustCompile(`(^|[ (])(--[a-z]{3}|-[a-z][ ).,;]|gobw |golat )`)
	of := regexp.MustCompile(`Docker|ls -l|ulimit -l|apt install|ldconfig -p|modprobe|free -m`) // other programs
	files, err := filepath.Glob("../../verbs/*.go")
	for _, dir := range []string{"ibv", "roce", "job"} {
		more, _ := filepath.Glob("../../verbs/" + dir + "/*.go")
		files = append(files, more...)
	}
	if err != nil || len(files) < 50 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var s scanner.Scanner
		set := token.NewFileSet()
		s.Init(set.AddFile(file, -1, len(text)), text, nil, 0)
		for {
			pos, kind, literal := s.Scan()
			if kind == token.EOF {
				break
			}
			if kind == token.STRING && ours.MatchString(literal) && !of.MatchString(literal) {
				t.Errorf("%v: %s", set.Position(pos), literal)
			}
		}
	}
}
