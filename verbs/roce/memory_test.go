package roce

import "testing"

// TestKeysAreRandom: neither the index of a first key nor its consumer's part can be guessed, a stale key does not name
// its successor, and a key of no region names none.
func TestKeysAreRandom(t *testing.T) {
	high, low := map[uint32]bool{}, map[uint32]bool{}
	const tables = 200
	for range tables {
		var k keyTable
		a, b := &region{}, &region{}
		k.add(a)
		stale := a.key
		k.add(b)
		if high[a.key>>8], low[a.key&0xff] = true, true; k.find(a.key) != a || k.find(b.key) != b {
			t.Fatalf("keys %#x and %#x do not name their regions", a.key, b.key)
		}
		k.remove(a)
		k.add(a)
		if k.find(stale) != nil || k.find(a.key) != a {
			t.Fatalf("the stale key %#x names %v", stale, k.find(stale))
		}
		for i := range uint32(256) { // key 0, and index 0, which has no region
			if k.find(i) != nil || k.find(k.mask<<8|i) != nil {
				t.Fatalf("key %#x or %#x names a region", i, k.mask<<8|i)
			}
		}
	}
	var k keyTable
	first := &region{}
	k.add(first)
	stale := first.key
	k.remove(first)
	for i := range 100_000 { // a program that registers for each message
		r := &region{}
		if k.add(r); r.key == stale {
			t.Fatalf("region %d after it has the key of the first one", i+1)
		}
		k.remove(r)
	}
	if len(high) < tables*9/10 || len(low) < 64 {
		t.Errorf("of %d first keys, there are %d high and %d low parts", tables, len(high), len(low))
	}
}
