//go:build linux && cgo

package ibv

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/gobw/gobw/verbs"
)

// TestImportedMemory registers memory under an address of its own, and part of a dma-buf: what the
// library is told, and what the region tells.
func TestImportedMemory(t *testing.T) {
	for _, absent := range [][]string{nil, {"ibv_reg_mr_iova2", "ibv_reg_dmabuf_mr"}} {
		trace := filepath.Join(t.TempDir(), "trace")
		pd, _ := domainAndQueue(t, openFake(t, fakeVerbs(t, map[string]string{"TRACE": trace}, absent...)))
		buf, err := verbs.Alloc(4096, verbs.MemoryOptions{})
		if err != nil {
			t.Fatal(err)
		}
		closeLater(t, buf)
		const access = verbs.AccessLocalWrite | verbs.AccessRemoteWrite
		a, errAt := pd.RegisterMemoryAt(buf, 0, 4096, 0x1000, access)
		b, errBuf := pd.RegisterDMABuf(7, 512, 1024, 0x2000, access)
		if absent != nil {
			if !errors.Is(errAt, syscall.EOPNOTSUPP) || !errors.Is(errBuf, syscall.EOPNOTSUPP) {
				t.Errorf("an old library: %v, %v", errAt, errBuf)
			}
			continue
		}
		if errAt != nil || errBuf != nil {
			t.Fatal(errAt, errBuf)
		}
		closeLater(t, a)
		closeLater(t, b)
		if a.Addr() != 0x1000 || a.Len() != 4096 || a.SGE(8, 16).Addr != 0x1008 || b.Addr() != 0x2000 || b.Len() != 1024 {
			t.Errorf("regions of %#x, %d and %#x, %d", a.Addr(), a.Len(), b.Addr(), b.Len())
		}
		text, err := os.ReadFile(trace)
		for _, want := range []string{"reg_mr iova 0x1000", "reg_dmabuf_mr fd 7 offset 512 length 1024 iova 0x2000"} {
			if err != nil || !strings.Contains(string(text), want) {
				t.Errorf("%v, the library was told\n%swant %q", err, text, want)
			}
		}
	}
}
