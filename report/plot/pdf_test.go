package plot

import (
	"bytes"
	"compress/zlib"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestPDF reads each figure's page as a strict reader would: the table of objects, the length of the stream, and operators that
// are known, with as many numbers as they take.
func TestPDF(t *testing.T) {
	for name, f := range figures() {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			if err := WritePDF(&out, f); err != nil {
				t.Fatal(err)
			}
			checkPDF(t, out.Bytes())
		})
	}
	hostile := &HeatMap{Title: ") >> endobj \x1b\\ \U0001f600", Columns: []string{"a"}, Rows: []string{"("}, Cells: [][]Cell{{{Text: "\x00\uffff"}}}}
	var out bytes.Buffer
	if err := WritePDF(&out, hostile); err != nil {
		t.Fatal(err)
	}
	checkPDF(t, out.Bytes())
}

func checkPDF(t *testing.T, file []byte) {
	t.Helper()
	end := regexp.MustCompile(`trailer\n<< /Size (\d+) /Root 1 0 R /Info (\d+) 0 R >>\nstartxref\n(\d+)\n%%EOF\n$`).FindSubmatch(file)
	if end == nil || !bytes.HasPrefix(file, []byte("%PDF-1.4\n")) {
		t.Fatal("no trailer or no header")
	}
	at, _ := strconv.Atoi(string(end[3]))
	lines := strings.Split(string(file[at:]), "\n")
	if lines[0] != "xref" || lines[1] != "0 "+string(end[1]) {
		t.Fatalf("the table of objects begins with %q", lines[:2])
	}
	size, _ := strconv.Atoi(string(end[1]))
	for i := 1; i < size; i++ {
		var offset, generation int
		if n, _ := fmt.Sscanf(lines[2+i], "%010d %05d n", &offset, &generation); n != 2 || len(lines[2+i]) != 19 || !bytes.HasPrefix(file[offset:], fmt.Appendf(nil, "%d 0 obj\n", i)) {
			t.Errorf("object %d is not where %q says", i, lines[2+i])
		}
	}
	stream := regexp.MustCompile(`/Length (\d+) /Filter /FlateDecode >>\nstream\n`).FindSubmatchIndex(file)
	length, _ := strconv.Atoi(string(file[stream[2]:stream[3]]))
	if !bytes.HasPrefix(file[stream[1]+length:], []byte("\nendstream\nendobj\n")) {
		t.Fatal("the stream has another length")
	}
	z, err := zlib.NewReader(bytes.NewReader(file[stream[1] : stream[1]+length]))
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	takes := map[string]int{"cm": 6, "J": 1, "j": 1, "rg": 3, "RG": 3, "gs": 1, "w": 1, "d": 2, "m": 2, "l": 2, "c": 6, "h": 0, "f": 0, "S": 0, "q": 0, "Q": 0}
	depth := 0
	var operands []string
	for word := range strings.FieldsSeq(regexp.MustCompile(`\[[^\]]*\]`).ReplaceAllString(string(content), "[]")) {
		n, operator := takes[word]
		if !operator {
			if _, err := strconv.ParseFloat(word, 64); err != nil && word != "[]" && word[0] != '/' || strings.ContainsAny(word, "eEIN") {
				t.Fatalf("%q is neither a number nor an operator", word)
			}
			if word[0] == '/' && !bytes.Contains(file, []byte(word+" << /ca ")) {
				t.Fatalf("no state %s", word)
			}
			operands = append(operands, word)
			continue
		}
		if len(operands) != n {
			t.Fatalf("%s has %d operands: %q", word, len(operands), operands)
		}
		depth += map[string]int{"q": 1, "Q": -1}[word]
		operands = nil
	}
	if depth != 0 || len(operands) != 0 || len(content) < 1000 {
		t.Errorf("%d states stay saved, %q is left over, of %d bytes", depth, operands, len(content))
	}
}
