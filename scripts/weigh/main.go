// Weigh counts the tokens of Go code, without comments and tests: a weight that no line break changes.
//
//	go run ./scripts/weigh verbs pattern internal report
package main

import (
	"fmt"
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"
)

const widest = 120 // columns of a line

type weight struct{ tokens, lines, wide int }

func (w *weight) add(other weight) {
	w.tokens += other.tokens
	w.lines += other.lines
	w.wide += other.wide
}

func (w weight) String() string {
	lines := float64(max(w.lines, 1))
	return fmt.Sprintf("%7d tokens, %6d lines of code, %.1f tokens a line, %.1f wide lines in a hundred",
		w.tokens, w.lines, float64(w.tokens)/lines, 100*float64(w.wide)/lines)
}

// weigh counts a file. A line of code is one with a token.
func weigh(source []byte) (w weight) {
	files := token.NewFileSet()
	file := files.AddFile("", -1, len(source))
	var s scanner.Scanner
	s.Init(file, source, nil, 0)
	last := 0
	for {
		at, kind, text := s.Scan()
		inserted := kind == token.SEMICOLON && text == "\n"
		switch line := file.Line(at); {
		case kind == token.EOF:
			for line := range strings.SplitSeq(string(source), "\n") {
				if utf8.RuneCountInString(line) > widest {
					w.wide++
				}
			}
			return w
		case !inserted:
			w.tokens++
			if line != last {
				w.lines++
			}
			last = line
		}
	}
}

func weighFolder(root string) (w weight, err error) {
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && d.Name() == "testdata" {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		source, err := os.ReadFile(path)
		w.add(weigh(source))
		return err
	})
	return w, err
}

func main() {
	var sum weight
	for _, root := range os.Args[1:] {
		w, err := weighFolder(root)
		if err != nil {
			fmt.Fprintln(os.Stderr, "weigh:", err)
			os.Exit(1)
		}
		sum.add(w)
		fmt.Printf("%-10s %v\n", root, w)
	}
	fmt.Printf("%-10s %v\n", "together", sum)
}
