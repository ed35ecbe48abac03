package child

import (
	"io"
	"os"
	"sync"
	"time"
)

// Input is the standard input of a process that another one has started, which ends when that one does, however it
// ends. So long after that this process ends, too, whatever it is doing: a call into a driver need not return.
func Input(grace time.Duration) io.Reader { return &input{grace: grace} }

type input struct {
	grace time.Duration
	ended sync.Once
}

func (i *input) Read(b []byte) (int, error) {
	n, err := os.Stdin.Read(b)
	if err != nil {
		i.ended.Do(func() {
			time.AfterFunc(i.grace, func() { os.Exit(1) }) //nolint:forbidigo // a thread may be where nothing else reaches it
		})
	}
	return n, err
}
