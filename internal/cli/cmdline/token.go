package cmdline

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"runtime"
)

// A token is long enough not to be guessed if it is random: 'openssl rand -hex 32' makes 64 bytes.
const (
	minTokenBytes = 16
	maxTokenBytes = 4096
	othersRead    = 0o004 // of a file's mode
)

// ReadToken reads the shared secret of --token-file, without white space around it. An empty path is no token. remedy
// is what to do if there is no such file.
func ReadToken(path, remedy string) ([]byte, error) {
	if path == "" {
		return nil, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%w; %s", err, remedy)
	}
	defer func() { _ = f.Close() }()
	if info, err := f.Stat(); err == nil && info.Mode().IsRegular() && info.Mode()&othersRead != 0 &&
		runtime.GOOS != "windows" {
		return nil, fmt.Errorf("%s: every user of this host can read the secret (%v): chmod 600 %s", path, info.Mode(), path)
	}
	b, err := io.ReadAll(io.LimitReader(f, maxTokenBytes+1))
	if err != nil {
		return nil, err
	}
	b = bytes.TrimSpace(b)
	if len(b) < minTokenBytes || len(b) > maxTokenBytes {
		return nil, fmt.Errorf("%s holds %d bytes: want %d to %d, such as 'openssl rand -hex 32' makes", path, len(b),
			minTokenBytes, maxTokenBytes)
	}
	return b, nil
}
