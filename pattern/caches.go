package pattern

// Caches are the sizes of a processor's caches in bytes.
type Caches struct {
	L1, L2, LastLevel int
	Guessed           bool // the system does not tell
}

// defaultCaches is assumed where the system does not tell.
func defaultCaches() Caches {
	return Caches{L1: 32 << 10, L2: 1 << 20, LastLevel: 32 << 20, Guessed: true}
}
