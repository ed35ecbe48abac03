package fabric

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	report "github.com/gobw/gobw/report/fabric"
)

// TestBadInput: whatever may be wrong with a host, it is named with its reason, the others are measured, and none is accused.
// testdata/bad.sh does it, in namespaces with real devices; what time alone decides is held in virtual time, too
// (coordinate.TestBadHosts).
func TestBadInput(t *testing.T) {
	dir := cluster(t, "10", "bad.sh", map[string][]string{
		"other":  {"-overlay", changed(t, "internal/bench/environment.go", "return v + modified", `return v + modified + "-other"`)},
		"skewed": {"-overlay", changed(t, "internal/fabric/wire/proof.go", "nonce(), time.Now()", "nonce(), time.Now().Add(-90*time.Second)")},
	}, "RAILS=2")
	t.Run("from the start", func(t *testing.T) {
		d, status := result(t, dir, "gather")
		hold(t, d, map[string]expected{
			"node1":  {state: "took part"},
			"node2":  {"took part", "a second process said it was this rank, on node2"},
			"node3":  {"unfit", "and rank 0 is "},
			"node4":  {"absent", "did not come within 10s"},
			"node5":  {"absent", "did not come within 10s"},
			"node6":  {"absent", "did not come within 10s"},
			"node7":  {"took part", "its clock is -9"},
			"node8":  {"took part", "one CPU only"},
			"node9":  {"absent", "when the run had begun"},
			"node10": {state: "took part"},
		})
		if status != "4" || d.Judged.Tested < 12 {
			t.Errorf("status %s, %d pairs", status, d.Judged.Tested)
		}
		for rank, said := range map[string]string{
			"3": "resolves to 127.0.1.1, which is this host itself",
			"4": "its name does not resolve here",
			"5": "or its name resolves to another host",
			"8": "a longer --wait waits for it",
		} {
			if got := text(t, dir, "gather."+rank+".rank"); !strings.Contains(got, said) {
				t.Errorf("rank %s said %q, want %q", rank, got, said)
			}
		}
		if out := text(t, dir, "gather.out"); !strings.Contains(out, "--exclude='node[3-6,9]'") {
			t.Errorf("report:\n%s", out)
		}
	})
	t.Run("in mid-run", func(t *testing.T) {
		d, _ := result(t, dir, "late")
		hold(t, d, map[string]expected{
			"node1": {state: "took part"},
			"node2": {state: "took part"},                                          // slow to start
			"node3": {"lost", "is gone: its interface eth1 has vanished, is down"}, // deleted
			"node4": {"took part", "silent for "},
			"node5": {"lost", "its agent has ended"},
			"node6": {"lost", "not heard of for "},
			"node7": {"lost", "is gone: its interface eth1 has vanished, is down"}, // set down
			"node8": {state: "took part"},
		})
		if d.Pattern != "custom" || d.Judged.Tested < 30 {
			t.Errorf("pattern %s, %d pairs", d.Pattern, d.Judged.Tested)
		}
		for _, said := range []string{"task 0: Exited with exit code 6", "--jsonl: write ", "no space left on device; the run goes on without this file", "--html: "} {
			if got := text(t, dir, "late.err"); !strings.Contains(got, said) {
				t.Errorf("rank 0 said\n%s\nwant %q", got, said)
			}
		}
	})
	t.Run("a crash that ends the job", func(t *testing.T) {
		d, status := result(t, dir, "crash")
		hold(t, d, map[string]expected{"node1": {state: "took part"}, "node2": {"lost", "its agent has ended"}, "node3": {state: "took part"}})
		if d.Stopped == "" || d.Cells.Len() < 4 || status == "0" {
			t.Errorf("stopped %q, %d cells, status %s", d.Stopped, d.Cells.Len(), status)
		}
	})
	t.Run("two jobs on one host", func(t *testing.T) {
		first, _ := result(t, dir, "first")
		hold(t, first, map[string]expected{"node1": {state: "took part"}, "node2": {state: "took part"}, "node3": {state: "took part"}})
		second, status := result(t, dir, "second")
		hold(t, second, map[string]expected{"node3": {"unfit", "4791"}, "node4": {state: "took part"}, "node5": {state: "took part"}})
		if status != "4" || second.Judged.Tested != 2 {
			t.Errorf("status %s, %d pairs", status, second.Judged.Tested)
		}
	})
}

// expected is what a document has to say of a host: its state, and part of its reason or notes.
type expected struct{ state, said string }

// hold compares hosts with what is expected of them, and lets nobody be accused of being slow.
func hold(t *testing.T, d *report.Document, want map[string]expected) {
	t.Helper()
	for name, e := range want {
		h := host(d, name)
		if h.State != e.state || !strings.Contains(strings.Join(append(slices.Clone(h.Notes), h.Reason), "; "), e.said) {
			t.Errorf("%s: %+v, want %+v", name, h, e)
		}
	}
	if got := accused(d); len(got) > 0 {
		t.Errorf("accused %v: %s", got, d.Line())
	}
}

// changed is an overlay for 'go build' of a program in one of whose files a text is replaced: what no namespace can give it, a
// version and a wall clock of its own.
func changed(t *testing.T, file, old, replacement string) string {
	t.Helper()
	dir := t.TempDir()
	file = filepath.Join(root(t), file)
	source, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Count(string(source), old) != 1 {
		t.Fatalf("%s does not say %q once", file, old)
	}
	instead, path := filepath.Join(dir, filepath.Base(file)), filepath.Join(dir, "overlay.json")
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {file: instead}})
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{instead: strings.Replace(string(source), old, replacement, 1), path: string(overlay)} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return path
}
