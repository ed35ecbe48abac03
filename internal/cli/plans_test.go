package cli

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gobw/gobw/internal/cli/exit"
	"github.com/gobw/gobw/internal/testrun"
)

// planAttempts is how often a plan may not pass before its test fails: a machine that is busy with something else may
// starve one test, so that it misses an expectation or its timeout, and is not likely to do it five times in a row.
const planAttempts = 5

// TestShippedPlans runs the plans that come with the program on the software device, as docs/results.md and the
// examples for CI call them. A mistake in a plan, a set-up that fails and corrupt data fail at once. What "course"
// expects of a test compared with another is asked of three runs each; that all of it runs, of one, and of three sizes
// in place of all: as a user does who has it printed and changes it.
func TestShippedPlans(t *testing.T) {
	testrun.OnlyWhole(t, "it judges figures")
	for _, tt := range []struct {
		name  string
		args  string
		edits []string          // of the plan printed: what stands there, and what to put in its place
		files map[string]string // what they hold
		says  []string
	}{
		{
			"quick", "quick -d roce0 --loopback --save junit.xml --save quick.html --save quick.json",
			nil,
			map[string]string{
				"junit.xml":  `<testsuites name="gobw qualify quick" tests="18" failures="0" errors="0" skipped="0">`,
				"quick.html": "PASS: plan quick", "quick.json": `"outcome": "pass"`,
			},
			[]string{"PASS: plan quick: 12 passed"},
		},
		{
			"course, short", "course.yaml -d roce0 --loopback --runs 1 --leave-out all --save course.json",
			[]string{
				"-s 2:1M", "-s 2,4K,1M", "-s 2:64K", "-s 2,4K,64K", "-D 0.3", "-D 0.1", "-n 2000", "-n 1100",
			},
			map[string]string{"course.json": `"name": "noncontig"`},
			[]string{"software device, not a NIC", "PASS: plan course: 13 passed"},
		},
		{
			"course, what it expects",
			"course.yaml -d roce0 --loopback --runs 3 --only depth-128,signal-hundredth,lists,noncontig",
			[]string{"-D 0.3", "-D 0.2"},
			nil,
			[]string{"depth-128: pass,", "noncontig: pass,", "0.5*signal-each.msgrate", "0.5*signal-hundredth.msgrate"},
		},
		{
			"nic, what needs no NIC of it",
			"nic.yaml -d roce0 --loopback --runs 1 --leave-out line --only rate,ud --save nic.xml",
			[]string{"-D 3", "-D 0.1"},
			map[string]string{"nic.xml": `<skipped message="left out on request`},
			[]string{"PASS: plan nic: 3 passed"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			qualify := func(args ...string) (text string, code int) {
				cmd := exec.CommandContext(t.Context(), "gobw", append([]string{"qualify"}, args...)...)
				cmd.Dir = dir
				var out bytes.Buffer
				cmd.Stdout, cmd.Stderr = &out, &out
				code = statusOf(cmd.Run())
				return out.String(), code
			}
			if name, _, _ := strings.Cut(tt.args, ".yaml"); len(tt.edits) > 0 {
				plan, code := qualify(name, "--print")
				for i := 0; i < len(tt.edits); i += 2 {
					if !strings.Contains(plan, tt.edits[i]) {
						t.Fatalf("exit status %d, and the plan has no %s:\n%s", code, tt.edits[i], plan)
					}
				}
				plan = strings.NewReplacer(tt.edits...).Replace(plan)
				if err := os.WriteFile(filepath.Join(dir, name+".yaml"), []byte(plan), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			var text string
			for attempt := 1; ; attempt++ {
				var code int
				text, code = qualify(append([]string{"--peer-timeout", "60s"}, strings.Fields(tt.args)...)...)
				if code == exit.Passed {
					testrun.Later(t, t.Name(), attempt)
					break
				}
				late := code == exit.Failed && strings.Contains(text, "did not end within its timeout")
				if starved := code == exit.Missed || code == exit.PeerLost || late; !starved || attempt == planAttempts {
					t.Fatalf("attempt %d: exit status %d\n%s", attempt, code, text)
				}
				t.Logf("attempt %d:\n%s", attempt, text)
			}
			for _, s := range tt.says {
				if !strings.Contains(text, s) {
					t.Errorf("it does not say %q:\n%s", s, text)
				}
			}
			for name, want := range tt.files {
				b, err := os.ReadFile(filepath.Join(dir, name))
				if err != nil {
					t.Error(err)
				} else if !strings.Contains(string(b), want) {
					t.Errorf("%s does not hold %s", name, want)
				}
			}
		})
	}
}

// TestExampleWorkflow runs the steps of the example for GitHub outside of this repository, with the program of this
// tree in place of the one that go install fetches.
func TestExampleWorkflow(t *testing.T) {
	testrun.OnlyWhole(t, "it builds the program outside")
	b, err := os.ReadFile("../../examples/ci/github.yml")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	const install = `GOBIN="$PWD" go install github.com/gobw/gobw/cmd/gobw@latest`
	steps := 0
	for line := range strings.SplitSeq(string(b), "\n") {
		step, ok := strings.CutPrefix(strings.TrimSpace(line), "run: ")
		if !ok {
			continue
		}
		steps++
		if step == install {
			if out, err := exec.Command("go", "build", "-o", filepath.Join(dir, "gobw"),
				"github.com/gobw/gobw/cmd/gobw").CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			continue
		}
		if strings.Contains(step, " qualify ") {
			step += " --only write-64k,send-latency --peer-timeout 60s"
		}
		cmd := exec.Command("bash", "-e", "-c", step)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GITHUB_STEP_SUMMARY="+filepath.Join(dir, "summary"))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", step, err, out)
		}
	}
	summary, err := os.ReadFile(filepath.Join(dir, "summary"))
	if steps != 3 || err != nil || !strings.HasPrefix(string(summary), "## PASS: plan quick: 2 passed") {
		t.Errorf("%d steps, %v, and a summary that opens with %.60q", steps, err, summary)
	}
	for _, name := range []string{"junit.xml", "quick.html", "quick.json"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
}
