package bench

import (
	"errors"
	"fmt"
	"time"

	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/verbs"
)

// Values in force where a plan says nothing; they are perftest's.
const (
	defaultTxDepth     = 128
	defaultRxDepth     = 512
	maxDatagramDepth   = 16000 // receives that UC and UD post by default, at most
	defaultCQMod       = 100
	smallForModeration = 8192 // above this size every request is signaled
	defaultTimeout     = 14
	softwareTimeout    = 16 // 268 ms: a software device that is off the processor for a while has not gone
	defaultRetries     = 7
	defaultQKey        = 0x11111111
	defaultMinRNRTimer = 12

	warmupWhenVerifying = 256 // messages

	maxQueuePairs = 16384
	maxTxDepth    = 15000
	maxRxDepth    = 16384
	maxCQMod      = 1024
	maxMessage    = 1<<31 - 1
	atomicBytes   = 8
)

// Settle checks a plan against a device and fills what it left open, so that both ends compile the same test. All faults
// come back at once. What depends on the size or on the peer stays open: see settings.
func Settle(p control.Plan, info verbs.DeviceInfo, port verbs.PortInfo) (control.Plan, error) {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }

	p.QPs, p.Runs = max(p.QPs, 1), max(p.Runs, 1)
	if p.Transport == 0 {
		p.Transport = verbs.RC
	}
	if p.Timeout == 0 && info.Software {
		p.Timeout = softwareTimeout
	}
	p = settleDefaults(p)
	op := Opcode(p)
	if !p.Transport.Supports(op) {
		bad("%v has no %v: use %s", p.Transport, op, transportsOf(op))
	}
	checkSizes(p, port, bad)
	checkLength(p, bad)
	checkRange := func(name string, v, low, high int) {
		if v < low || v > high {
			bad("%s %d: want %d to %d", name, v, low, high)
		}
	}
	lim := info.Limits
	checkRange("--qp (-q)", p.QPs, 1, atMost(maxQueuePairs, lim.MaxQP))
	checkRange("--tx-depth (-t)", p.TxDepth, 1, atMost(maxTxDepth, lim.MaxQPWR))
	if p.RxDepth != 0 {
		checkRange("--rx-depth (-r)", p.RxDepth, 1, atMost(maxRxDepth, lim.MaxQPWR))
	}
	if p.CQMod != 0 {
		checkRange("--cq-mod (-Q)", p.CQMod, 1, maxCQMod)
	}
	checkRange("--post-list (-l)", p.PostList, 1, p.TxDepth)
	if p.PostList > 1 && p.Iterations%uint64(p.PostList) != 0 {
		bad("--iters (-n) %d is not a multiple of --post-list (-l) %d", p.Iterations, p.PostList)
	}
	if p.RecvList > 1 && !Opcode(p).NeedsReceive() {
		bad("--recv-post-list: only operations that consume receives have it, %v does not", op)
	}
	if p.InlineBytes > 0 && op != verbs.OpSend && op != verbs.OpSendWithImmediate && op != verbs.OpWrite && op != verbs.OpWriteWithImmediate {
		bad("--inline (-I) %d: %v cannot be inline", p.InlineBytes, op)
	}
	if p.InlineBytes > 0 && lim.MaxInline >= 0 && p.InlineBytes > lim.MaxInline {
		bad("--inline (-I) %d: %s has %d bytes at most", p.InlineBytes, info.Name, lim.MaxInline)
	}
	if p.Outstanding != 0 {
		checkRange("--outs (-o)", p.Outstanding, 1, max(min(lim.MaxRDAtomic, lim.MaxInitRDAtomic), 1))
	}
	if p.MTU != 0 && port.ActiveMTU != 0 && p.MTU > port.ActiveMTU {
		bad("--mtu (-m) %v: port %d of %s has %v", p.MTU, port.Number, info.Name, port.ActiveMTU)
	}
	if p.SRQ && p.Operation != control.Send {
		bad("--srq: only send uses receives")
	}
	if p.Bidirectional && p.Kind == control.Latency {
		bad("--bidirectional (-b): a latency test has both directions already")
	}
	if p.Kind == control.Latency && p.QPs != 1 {
		bad("--qp (-q) %d: a latency test has one queue pair", p.QPs)
	}
	if p.Events && p.Kind == control.Latency && op == verbs.OpWrite {
		bad("--events (-e): a WRITE makes no event at the peer; use --write-imm, or golat send")
	}
	if p.Operation == control.Atomic && !lim.Atomic {
		bad("%s has no atomics", info.Name)
	}
	switch p.Verify {
	case "", "ends", "all":
	default:
		bad("--verify %q: want ends or all", p.Verify)
	}
	if p.Verify == "all" && (p.Duration > 0 || p.Kind == control.Latency) {
		bad("--verify all: works for bandwidth tests with --iters (-n); --verify ends works for all")
	}
	if p.Verify != "" && p.QPs > 1 && (p.Duration > 0 || p.SRQ || p.Transport != verbs.RC) {
		bad("--verify with several queue pairs needs RC, --iters (-n) and no --srq: else nobody knows which message is where")
	}
	if p.RDMACM && p.Transport == verbs.UC {
		bad("--rdma-cm (-R): RDMA CM connects RC and UD, not UC")
	}
	if p.TOS != nil && !p.RDMACM {
		bad("--tos (-T): it needs --rdma-cm (-R); --tclass works without")
	}
	if p.RateBits < 0 {
		bad("--rate %g: want a positive number of bits per second", p.RateBits)
	}
	if lim.Atomic && p.Operation == control.Atomic && p.Transport != verbs.RC {
		bad("atomics need RC")
	}
	return p, errors.Join(errs...)
}

// settleDefaults fills what does not depend on the device.
func settleDefaults(p control.Plan) control.Plan {
	if p.TxDepth == 0 {
		p.TxDepth = defaultTxDepth
		if p.Kind == control.Latency {
			p.TxDepth = 1
		}
		if p.PostList > p.TxDepth {
			p.TxDepth = p.PostList
		}
	}
	p.PostList = max(p.PostList, 1)
	if p.Verify != "" && p.QPs > 1 && p.WarmupSteady {
		// Which receive takes which message is known only where each queue pair's share is: a warm-up by count.
		p.WarmupSteady, p.Warmup = false, warmupWhenVerifying
	}
	if p.Timeout == 0 {
		p.Timeout = defaultTimeout
	}
	if p.Retries == 0 {
		p.Retries = defaultRetries
	}
	if p.RNRRetries == 0 {
		p.RNRRetries = defaultRetries
	}
	if p.QKey == 0 {
		p.QKey = defaultQKey
	}
	if p.Operation == control.Atomic {
		p.Sizes = []int{atomicBytes}
		if p.AtomicType == 0 {
			p.AtomicType = verbs.OpFetchAdd
		}
	}
	return p
}

func checkSizes(p control.Plan, port verbs.PortInfo, bad func(string, ...any)) {
	if len(p.Sizes) == 0 {
		bad("no message size")
	}
	mtu := port.ActiveMTU
	if p.MTU != 0 {
		mtu = p.MTU
	}
	for _, s := range p.Sizes {
		switch {
		case s < 1 || s > maxMessage:
			bad("--size (-s) %d: want 1 to %d bytes", s, maxMessage)
		case p.Transport == verbs.UD && mtu != 0 && s > mtu.Bytes():
			bad("--size (-s) %d: a UD message is one packet, at most the MTU of %d bytes", s, mtu.Bytes())
		case port.MaxMessage != 0 && uint64(s) > port.MaxMessage:
			bad("--size (-s) %d: the port carries %d bytes at most", s, port.MaxMessage)
		}
	}
}

func checkLength(p control.Plan, bad func(string, ...any)) {
	switch {
	case p.Iterations == 0 && p.Duration == 0:
		bad("neither --iters (-n) nor --duration (-D)")
	case p.Iterations != 0 && p.Duration != 0:
		bad("--iters (-n) %d and --duration (-D) %v exclude each other", p.Iterations, p.Duration)
	case p.Duration < 0:
		bad("--duration (-D) %v: want more than 0", p.Duration)
	case p.Duration != 0 && p.Duration <= 2*p.Margin:
		bad("--duration (-D) %v: want more than two margins (-f) of %v", p.Duration, p.Margin)
	}
	if p.Iterations > 1<<40 {
		bad("--iters (-n) %d: want at most %d", p.Iterations, uint64(1)<<40)
	}
}

func atMost(a, limit int) int {
	if limit > 0 {
		return min(a, limit)
	}
	return a
}

func transportsOf(op verbs.Opcode) string {
	s := ""
	for _, t := range []verbs.Transport{verbs.RC, verbs.UC, verbs.UD} {
		if t.Supports(op) {
			if s != "" {
				s += " or "
			}
			s += t.String()
		}
	}
	return s
}

// settings are a settled plan's numbers for one size: what perftest's rules make of depths, moderation and lists.
type settings struct {
	window, signal, batch int
	rxDepth               int
	count                 uint64        // per queue pair; 0: by duration
	duration              time.Duration // of the posting, margins included
}

// settingsFor applies the rules. count overrides the plan's iterations where it is not 0 (a warm-up).
func settingsFor(p control.Plan, size int, count uint64) settings {
	s := settings{window: p.TxDepth, batch: p.PostList, count: count}
	if count == 0 {
		s.count, s.duration = p.Iterations, p.Duration
	}
	if s.count > 0 && uint64(s.window) > s.count {
		s.window = int(s.count)
	}
	s.signal = p.CQMod
	switch {
	case s.signal != 0:
	case p.PostList > 1:
		s.signal = p.PostList
	case size > smallForModeration && p.Transport != verbs.UD && !p.AllSizes && !p.Events:
		s.signal = 1
	default:
		s.signal = defaultCQMod
	}
	s.signal = min(s.signal, s.window)
	s.batch = min(s.batch, s.window)
	if p.Kind == control.Latency {
		s.signal, s.batch = 1, 1
	}
	// A batch is posted when all of it fits: moderation leaves room for one beyond the last signaled message.
	for s.signal > 1 && s.signal+s.batch-gcd(s.signal, s.batch) > s.window {
		s.signal--
	}
	s.rxDepth = rxDepthOf(p)
	return s
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// rxDepthOf is the number of receives kept posted per queue pair; it does not depend on the size.
func rxDepthOf(p control.Plan) int {
	d := p.RxDepth
	switch {
	case !Opcode(p).NeedsReceive():
		return 1
	case d == 0 && p.Transport != verbs.RC && p.Kind == control.Bandwidth && p.Iterations > 0:
		return int(min(max(p.Iterations, defaultRxDepth), maxDatagramDepth))
	case d == 0:
		d = defaultRxDepth
	}
	if p.Iterations > 0 && uint64(d) > p.Iterations && len(p.Sizes) == 1 {
		d = int(p.Iterations)
		d += d % 2
	}
	return d
}
