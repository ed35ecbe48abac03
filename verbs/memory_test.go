package verbs

import "testing"

func TestAllocIsZeroedAlignedAndWritable(t *testing.T) {
	b, err := Alloc(5000, MemoryOptions{Touch: true})
	if err != nil {
		t.Fatal(err)
	}
	if b.Len() != 5000 || b.Addr()%4096 != 0 {
		t.Errorf("got %d bytes at %#x, want 5000 on a page boundary", b.Len(), b.Addr())
	}
	b.Bytes()[4999] = 1
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	if err := b.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
	if _, err := Alloc(0, MemoryOptions{}); err == nil {
		t.Error("Alloc(0) succeeded")
	}
}

func TestAllocRefusesNodeBeyondMask(t *testing.T) {
	if b, err := Alloc(1, MemoryOptions{NUMANode: 1 << 20}); err == nil {
		t.Errorf("memory on node %d: %v", 1<<20, b.Close())
	}
}
