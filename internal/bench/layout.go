package bench

// layout is where messages lie in an endpoint's buffer: for each queue pair a slot to send from, then for each a slot to
// receive into (perftest's order, so that peers find the addresses they are told).
type layout struct {
	qps       int
	sendBytes int // slot to send from, per queue pair
	recvBytes int // slot that the peer writes, or receives land in
	lead      int // bytes before the first receive slot (UD: the header ends on a cache line)
	total     int
}

func newLayout(qps int, d demand) layout {
	l := layout{qps: qps, sendBytes: d.sendBytes, recvBytes: d.recvBytes, lead: d.lead}
	l.total = qps*(d.sendBytes+d.recvBytes) + d.lead
	return l
}

func (l layout) sendAt(qp int) int { return qp * l.sendBytes }
func (l layout) recvAt(qp int) int { return l.qps*l.sendBytes + l.lead + qp*l.recvBytes }

// stepping is how requests walk through a slot: request k goes to (k mod places) × stride. perftest steps by the size
// rounded up to a cache line within one page, and not at all where a page holds less than two messages.
type stepping struct{ stride, places int }

func newStepping(size, page, line int) stepping {
	if size > page/2 {
		return stepping{stride: 0, places: 1}
	}
	stride := max(roundUp(size, line), line)
	return stepping{stride: stride, places: max(page/stride, 1)}
}

func (s stepping) at(k uint64) int { return int(k%uint64(s.places)) * s.stride }

func roundUp(n, unit int) int { return (n + unit - 1) / unit * unit }
