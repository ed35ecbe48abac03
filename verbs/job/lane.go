package job

import (
	"github.com/gobw/gobw/verbs"
)

// lane is a Lane in progress.
type lane struct {
	*Lane
	index  int
	qpn    uint32
	ud     bool
	packed bool // some message has several steps or a kernel before its requests
	ring   []message
	packs  []Work // of each of the driver's groups, which are the steps of the messages
	lazy   uint64 // with fewer messages in flight than this, nobody waits for a completion

	sendAt, groupAt, retireAt                 int // places in the ring, and in the driver's groups
	receiveAt, unpackAt                       int
	untilSignal                               uint64 // messages up to the next signaled one
	posted, retired, received, receivesPosted uint64
	list                                      int     // ReceiveList, until the job is done
	owed                                      int     // receives that have completed and are not posted again
	queued                                    bool    // in loop.owing: some of them are due
	nextPost                                  Ticks   // when the next burst is due, or the one that has begun was
	inBurst                                   uint64  // messages posted of a burst that has begun
	postedAt                                  []Ticks // of the messages in flight, a ring; nil: not needed
	newestAt, oldestAt                        int     // places in postedAt: of the next message to post, and to retire
}

// message is a Message without its requests.
type message struct {
	groups int
	bytes  uint64
	done   Work
}

// compile takes a lane apart: its requests, in groups, are the driver's.
func (l *lane) compile(j *Job, index int) [][]verbs.SendRequest {
	from := &j.Lanes[index]
	*l = lane{
		Lane: from, index: index, qpn: from.QP.QPN(), ud: from.QP.Transport() == verbs.UD,
		untilSignal: uint64(from.Signal), receivesPosted: from.Posted, list: from.ReceiveList,
	}
	if j.Shape == Serve {
		l.Lane = &Lane{QP: from.QP}
		return nil
	}
	if n := len(from.Receives); n > 0 {
		l.receiveAt = int(l.receivesPosted % uint64(n))
	}
	if j.Shape == PingPong && from.Await != AwaitCompletion {
		l.lazy = uint64(from.Window) * 3 / 4
	}
	if j.Shape == Stream && j.Record != nil && j.Record.Samples {
		l.postedAt = make([]Ticks, max(from.Window, 1))
	}
	var groups [][]verbs.SendRequest
	l.ring = make([]message, len(from.Ring))
	for k := range from.Ring {
		m := &from.Ring[k]
		l.ring[k] = message{groups: len(m.Steps), bytes: m.Bytes, done: m.Done}
		l.packed = l.packed || len(m.Steps) > 1
		for s := range m.Steps {
			pack := m.Steps[s].Pack
			l.packed = l.packed || !pack.IsZero()
			l.packs = append(l.packs, pack)
			groups = append(groups, m.Steps[s].Requests)
		}
	}
	return groups
}

// due is the length of the lane's next batch; 0: it has sent everything, or too many groups are in flight.
func (l *lane) due(ended bool) uint64 {
	if len(l.ring) == 0 {
		return 0
	}
	n := uint64(l.Batch)
	if group := uint64(l.Group); group > 0 && l.posted/group-l.retired/group >= uint64(l.Groups) {
		return 0
	}
	if l.Count > 0 {
		n = min(n, l.Count-l.posted)
	}
	if ended { // as far as the next signaled message
		if l.untilSignal == uint64(l.Signal) {
			return 0
		}
		n = min(n, l.untilSignal)
	}
	return n
}

// joined is how many messages are posted at once where the device sees no lists: whole
// batches, as many as the window admits.
func (l *lane) joined(batch uint64) uint64 {
	room := uint64(l.Window) - (l.posted - l.retired)
	n := room - room%batch
	if l.Count > 0 {
		n = min(n, l.Count-l.posted)
	}
	return n
}

// dueReceives is how many receives are to be posted next as one list; 0: none yet.
func (l *lane) dueReceives() int {
	switch last := l.Expect > 0 && l.receivesPosted+uint64(l.owed) >= l.Expect; {
	case l.list == 0, last && l.owed < l.list:
		return l.owed
	case l.owed < l.list:
		return 0
	}
	return l.list
}

// nextRetired is how many messages are complete with the next completion: those up to a signaled one.
func (l *lane) nextRetired() uint64 {
	to := l.retired + uint64(l.Signal)
	if l.Count > 0 {
		to = min(to, l.Count)
	}
	return to
}

func (l *lane) finished(ended bool) bool {
	sent := len(l.ring) == 0 || l.retired == l.posted && l.due(ended) == 0
	arrived := len(l.Receives) == 0 || ended || l.Expect > 0 && l.received >= l.Expect
	return sent && arrived
}

// wrap is the place n after at in a ring.
func wrap(at, n, ring int) int {
	if at += n; at < ring {
		return at
	}
	return at % ring
}

// pace lets the messages of a burst follow each other at once. The next burst is due when Pace has passed for each of
// them since this one was due: so a burst that began late, by up to MakeUp, is made up for.
func (l *lane) pace(start Ticks, n uint64, j *Job) {
	if l.inBurst == 0 {
		l.nextPost = max(l.nextPost, start-j.MakeUp)
		if l.posted == 0 {
			l.nextPost = start
		}
	}
	if l.inBurst += n; l.inBurst >= uint64(j.Burst) {
		l.nextPost += j.Pace * Ticks(l.inBurst)
		l.inBurst = 0
	}
}
