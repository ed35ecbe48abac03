package judge

// coverage counts which ordered pairs of hosts were tested, a bit each.
type coverage struct {
	hosts int
	bits  []uint64
	n     int
}

func newCoverage(hosts int) *coverage {
	return &coverage{hosts: hosts, bits: make([]uint64, (hosts*hosts+63)/64)}
}

func (c *coverage) add(x Cell) {
	i := int(x.From)*c.hosts + int(x.To)
	if c.bits[i/64]&(1<<(i%64)) == 0 {
		c.bits[i/64] |= 1 << (i % 64)
		c.n++
	}
}
