package job

// laneIndex finds a lane by its queue pair's number: a hash table with open addressing, at most half full.
type laneIndex struct {
	table []int32 // 1 more than the lane's place; 0: empty
	mask  uint32
}

func indexLanes(lanes []lane) laneIndex {
	size := 2
	for size < 2*len(lanes) {
		size *= 2
	}
	x := laneIndex{table: make([]int32, size), mask: uint32(size - 1)}
	for i := range lanes {
		at := lanes[i].qpn & x.mask
		for x.table[at] != 0 {
			at = (at + 1) & x.mask
		}
		x.table[at] = int32(i) + 1
	}
	return x
}

// find returns nil where the queue pair is on no lane.
func (x *laneIndex) find(lanes []lane, qpn uint32) *lane {
	for at := qpn & x.mask; ; at = (at + 1) & x.mask {
		i := x.table[at]
		if i == 0 {
			return nil
		}
		if l := &lanes[i-1]; l.qpn == qpn {
			return l
		}
	}
}
