package pattern

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gobw/gobw/internal/cputime"
	"github.com/gobw/gobw/internal/testrun"
)

func read(t testing.TB, text string) *Descriptors {
	t.Helper()
	d, err := ReadDescriptors(strings.NewReader(text), DescriptorOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestReadDescriptors(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"commas", "0,64,10\n", "0,64,10\n"},
		{"blanks, tabs, hex and comments", "# a dump\n\n 0x10\t64  10 # first\r\n32 , 128 , 0X0a", "16,64,10\n32,128,10\n"},
		{"header", "local,remote,length\n0,0,8\n", "0,0,8\n"},
		{"header behind a comment", "# a dump\n\"Local\",\"Remote\",\"Length\"\r\n0,0,8\r\n", "0,0,8\n"},
		{"a byte order mark", "\ufeff0,0,8\r\n16,8,8\r\n", "0,0,8\n16,8,8\n"},
		{"repeats", "0,0,8,3,16,8\n", "0,0,8,3,16,8\n"},
		{"a repeat of one", "0,0,8,1,999,999\n", "0,0,8\n"},
		{"addresses", "0x7f0012345678,0x7f00deadb000,64\n0x7f0012346678,0x7f00deadb040,64\n", "1656,0,64\n5752,64,64\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := string(read(t, c.text).Append(nil)); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
			var packed bytes.Buffer
			w := gzip.NewWriter(&packed)
			_, _ = w.Write([]byte(c.text))
			_ = w.Close()
			d, err := ReadDescriptors(&packed, DescriptorOptions{})
			if err != nil || string(d.Append(nil)) != c.want {
				t.Errorf("packed: %v", err)
			}
		})
	}
}

// TestDescriptorFaults: a mistake has a line, a column where it has one, and says what to write.
func TestDescriptorFaults(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", "no line has a descriptor: want local,remote,length"},
		{"# nothing\n", "no line has a descriptor"},
		{"0,0\n", "line 1: 2 numbers: want local,remote,length[,count,local_stride,remote_stride]"},
		{"0,0,8,2\n", "line 1: 4 numbers"},
		{"1,2,3,4,5,6,7\n", `line 1, column 13: "7" is too much`},
		{"0,0,8\n0,x,8\n", `line 2, column 3: remote "x" is not a number: write 4096 or 0x1000`},
		{"0,0,4K\n", `line 1, column 5: length "4K" is not a number`},
		{"0,-1,8\n", `line 1, column 3: remote "-1" is negative: subtract the lowest place from all`},
		{"0,,8\n", "line 1, column 3: remote is missing before the comma"},
		{",0,8\n", "line 1, column 1: local is missing before the comma"},
		{"0,0,0\n", "line 1, column 5: length 0: leave the line out"},
		{"0,0,8,0,8,8\n", "line 1, column 7: count 0: leave the line out"},
		{"0,0,2147483648\n", "line 1, column 5: length 2147483648: at most 1073741824 bytes"},
		{"0,0,1,10000001,1,1\n", "line 1, column 7: more than 10000000 pieces"},
		{"0,0,1,2,1,1073741825\n", "line 1, column 11: the pieces of this line span more than 1073741824 bytes"},
		{"0,0,1,2,4611686018427387903,1\n", "line 1, column 9: the pieces of this line span"},
		{"99999999999999999999,0,1\n", "line 1, column 1: local \"99999999999999999999\" is larger than 4611686018427387903"},
		{"9223372036854775807,0,1\n", "line 1, column 1: local \"9223372036854775807\" is larger than 4611686018427387903"},
		{"0,0,8\n0,2000000000,8\n", "lines 1 and 2: the remote pieces span 2000000008 bytes, at most 1073741824"},
		{"0,0,8\n" + strings.Repeat("1", 5000) + "\n", "line 2: longer than 4096 bytes"},
		{"0,a,1\n0,0,0\n", "line 2, column 5: length 0"},
		{
			"\x1f\x8bxxxxxxxxxxxxxxxx",
			"the compressed data is cut off, damaged, or followed by other data: gzip: invalid header",
		},
		{"0,0,4096\r8192,4096,4096\r", "line 1: lines end with a carriage return alone: want a line feed"},
		{"# a dump\r0,0,8\r8,8,8\r", "line 1: lines end with a carriage return alone"},
		{strings.Repeat("0,0,8\r", 1000), "line 1: lines end with a carriage return alone"},
		{"0;0;8\n8;8;8\n", "line 1: ';' is between numbers: want a comma, a blank or a tab"},
		{"local;remote;length\n8;8;8\n", "line 1: ';' is between numbers"},
		{"\xff\xfe0\x00,\x000\x00,\x008\x00\n\x00", "line 1: a byte is zero, as in UTF-16: save the list as UTF-8"},
		{"\xfe\xff\x00#\x00\n\x000\x00,\x000\x00,\x008\x00\n", "line 1: a byte is zero, as in UTF-16"},
		{
			"local,length,remote\n0,8,0\n",
			`line 1, column 1: local "local" is not a number: write 4096 or 0x1000. A header has these names in this order, ` +
				"or begins with #: local,remote,length[,count,local_stride,remote_stride]",
		},
		{"local,0,8\n", "line 1, column 1: local \"local\" is not a number: write 4096 or 0x1000. A header has these names"},
		{"0,0,8\nlocal,remote,length\n", `line 2, column 1: local "local" is not a number: write 4096 or 0x1000`},
	} {
		_, err := ReadDescriptors(strings.NewReader(c.text), DescriptorOptions{})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.40q: got %v, want %q", c.text, err, c.want)
		}
	}
	for _, text := range []string{"# a dump\n9223372036854775808,0,1\n", "0,0,4K\n", "0,0,8\nx,0,8\n", "0,0,x\n"} {
		if _, err := ReadDescriptors(strings.NewReader(text), DescriptorOptions{}); strings.Contains(err.Error(), "header") {
			t.Errorf("%q has no header: %v", text, err)
		}
	}
	many := strings.Repeat("x\n", 1000)
	if _, err := ReadDescriptors(strings.NewReader(many), DescriptorOptions{}); strings.Count(err.Error(),
		"\n") != maxFaults-1 {
		t.Errorf("%d mistakes told, want %d", strings.Count(err.Error(), "\n")+1, maxFaults)
	} else if strings.Count(err.Error(), "header") != 1 {
		t.Errorf("a hint is told more than once: %v", err)
	}
}

// TestOverlaps: what is written twice is found, against every piece compared with every
// other; what is read twice is not a mistake.
func TestOverlaps(t *testing.T) {
	r := rand.New(rand.NewPCG(42, 4))
	found := 0
	for range 2000 {
		var text strings.Builder
		for range 1 + r.IntN(5) {
			fmt.Fprintf(&text, "%d,%d,%d,%d,%d,%d\n", r.IntN(300), r.IntN(300), 1+r.IntN(20), 1+r.IntN(3), r.IntN(40),
				r.IntN(40))
		}
		d := read(t, text.String())
		for _, reads := range []bool{false, true} {
			transfer, err := d.Transfer(reads)
			unchecked, _ := d.Transfer(!reads)
			if transfer.Local.blocks == nil {
				transfer = unchecked
			}
			target := transfer.Remote.blocks
			if reads {
				target = transfer.Local.blocks
			}
			overlap := false
			for i, a := range target {
				for _, b := range target[:i] {
					overlap = overlap || a.Offset < b.End() && b.Offset < a.End()
				}
			}
			if target == nil {
				continue // both sides overlap: neither is there to be looked at
			}
			if overlap != errors.Is(err, ErrOverlap) {
				t.Fatalf("reads %v, overlap %v of %q: %v", reads, overlap, text.String(), err)
			}
			if overlap {
				found++
			}
		}
	}
	if found < 100 {
		t.Errorf("only %d overlaps: the test shows too little", found)
	}
	for _, c := range []struct{ text, want string }{
		{
			"0,0x7f0000000000,8\n100,0x7f0000000100,8\n50,0x7f0000000004,8\n",
			"lines 1 and 3: the remote blocks overlap, and all are written, from 139637976727556 (0x7f0000000004) on",
		},
		{
			"0,0,8,9,8,4\n",
			"line 1, whose remote_stride is below its length: the remote blocks overlap, and all are written, from 4 (0x4) on",
		},
	} {
		if _, err := read(t, c.text).Transfer(false); err == nil || err.Error() != c.want {
			t.Errorf("got %v, want %q", err, c.want)
		}
	}
}

// TestScaled: a scaled list has the mean that was asked for, and touches where the list does.
func TestScaled(t *testing.T) {
	d := read(t, "0,0,576,100,4608,576\n")
	transfer, err := d.Transfer(false)
	if err != nil {
		t.Fatal(err)
	}
	for _, mean := range []int64{1, 64, 640, 4096} {
		s, err := transfer.Scaled(mean)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Local.MeanBlockBytes(); got != float64(mean) || s.Remote.Extent() != 100*mean {
			t.Errorf("mean %d: blocks of %v, remote extent %d", mean, got, s.Remote.Extent())
		}
		if c := (Cut{Entries: 30, Merge: true}); s.Count(c, 1000) != transfer.Count(c, 1000) {
			t.Errorf("mean %d: %+v, want %+v", mean, s.Count(c, 1000), transfer.Count(c, 1000))
		}
	}
	if _, err := transfer.Scaled(1 << 29); !errors.Is(err, ErrTooLarge) {
		t.Errorf("got %v, want too large", err)
	}
	r := rand.New(rand.NewPCG(42, 5))
	for range 300 {
		list := transferOf(randomPieces(r))
		scaled, err := list.Scaled(1 + r.Int64N(1000))
		if err != nil {
			t.Fatal(err)
		}
		for i := range list.Local.blocks {
			for _, side := range [][2][]Block{
				{list.Local.blocks, scaled.Local.blocks}, {list.Remote.blocks, scaled.Remote.blocks},
			} {
				if i > 0 && (side[0][i-1].End() == side[0][i].Offset) && side[1][i-1].End() != side[1][i].Offset {
					alone := !slices.ContainsFunc(side[0], func(b Block) bool { // another block reaches into it
						return b != side[0][i-1] && b.Offset < side[0][i].Offset && b.End() > side[0][i-1].Offset
					})
					if alone {
						t.Fatalf("piece %d touches the one before, scaled it does not", i)
					}
				}
			}
			if scaled.Local.blocks[i].Length != scaled.Remote.blocks[i].Length {
				t.Fatalf("piece %d has two lengths", i)
			}
		}
	}
}

// TestMillionDescriptors: 10^6 descriptors are read, checked and planned in a second and a GiB.
func TestMillionDescriptors(t *testing.T) {
	const n = 1_000_000
	order := rand.New(rand.NewPCG(42, 6)).Perm(n)
	var text []byte
	for i, k := range order {
		text = fmt.Appendf(text, "0x%x,%d,576\n", 0x7f0000000000+k*640, i*576)
	}
	// An idle processor's collector spins until a long move of memory ends, and that is no cost of the plan.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	began := cputime.Process()
	d, err := ReadDescriptors(bytes.NewReader(text), DescriptorOptions{})
	if err != nil {
		t.Fatal(err)
	}
	transfer, err := d.Transfer(false)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []Cut{
		{Entries: 1}, {Entries: 1, Merge: true}, {Entries: 30, Merge: true}, {Bytes: 64 << 10, Merge: true, Split: true},
	} {
		t.Logf("%+v: %+v", c, transfer.Count(c, n))
	}
	if _, err := transfer.Scaled(640); err != nil {
		t.Fatal(err)
	}
	took := cputime.Process() - began
	var used runtime.MemStats
	runtime.ReadMemStats(&used)
	t.Logf("%v of CPU time and %d MiB of memory for %d descriptors of %d bytes of text", took, used.Sys>>20, n, len(text))
	if used.Sys > 1<<30 {
		t.Errorf("%d bytes of memory, want less than 1 GiB", used.Sys)
	}
	if took > 2*time.Second { // a second on a quiet machine
		t.Errorf("%v of CPU time, want 2 s at most", took)
	}
}

// TestHostileDescriptors: text that stands for much costs what it says before anything is expanded.
func TestHostileDescriptors(t *testing.T) {
	var bomb bytes.Buffer
	w := gzip.NewWriter(&bomb)
	for range 1 << 6 {
		_, _ = w.Write(bytes.Repeat([]byte{'\n'}, 1<<20))
	}
	_ = w.Close()
	for name, text := range map[string]string{
		"repeats":   strings.Repeat("0,0,1,10000000,0,0\n", 1000),
		"gzip bomb": bomb.String(),
		"numbers":   strings.Repeat("9", 1<<20),
	} {
		if _, err := ReadDescriptors(strings.NewReader(text), DescriptorOptions{TextBytes: 1 << 20}); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func FuzzDescriptors(f *testing.F) {
	for _, text := range []string{
		"0,0,8\n", "0x10 0x20\t8,3,16,8", "# x\n1,2,3", "local,remote,length\n0,0,1\n", "0,0,8,2,0,8\n9,9,9\n", "\x1f\x8b",
	} {
		f.Add([]byte(text))
	}
	testrun.Fuzz(f, func(t *testing.T, b []byte) {
		d, err := ReadDescriptors(bytes.NewReader(b), DescriptorOptions{TextBytes: 1 << 20, Pieces: 10000})
		if err != nil {
			return
		}
		text := d.Append(nil)
		again, err := ReadDescriptors(bytes.NewReader(text), DescriptorOptions{})
		if err != nil || !bytes.Equal(again.Append(nil), text) {
			t.Fatalf("%q does not read back: %v", text, err)
		}
		transfer, err := d.Transfer(false)
		if err != nil {
			return
		}
		if transfer.Local.Blocks() != d.Pieces || transfer.Local.Size() != d.Bytes || transfer.Remote.Size() != d.Bytes {
			t.Fatalf("%q: %d pieces of %d bytes, want %d of %d", text, transfer.Local.Blocks(), transfer.Local.Size(),
				d.Pieces, d.Bytes)
		}
		if load := transfer.Count(Cut{Entries: 1}, MaxPieces); int64(load.Requests) != d.Pieces {
			t.Fatalf("%q: %+v", text, load)
		}
	})
}
