package hostlist

import (
	"bufio"
	"fmt"
	"io"
	"strings"
)

// Lines reads a file of hosts line by line, without comments ("#") and empty lines; a mistake has the number of its line.
func Lines(r io.Reader, each func(text string) error) error {
	s := bufio.NewScanner(r)
	s.Buffer(nil, 1<<20)
	for line := 1; s.Scan(); line++ {
		text, _, _ := strings.Cut(s.Text(), "#")
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		if err := each(text); err != nil {
			return fmt.Errorf("line %d: %w", line, err)
		}
	}
	return s.Err()
}
