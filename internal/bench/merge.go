package bench

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/plain"
	"github.com/gobw/gobw/verbs"
)

// endReport is what the ends tell each other after a round, inside [control.Figures].Record.
type endReport struct {
	Record report.Record `json:"record"`
	arrival
	Corrupt string `json:"corrupt,omitempty"`
	// Environment is the end's, now that it is known where and how it measures.
	Environment *report.Environment `json:"environment,omitempty"`
}

func (r *run) figuresOf(rec report.Record, x *outcome) (control.Figures, error) {
	f := control.Figures{
		Size: rec.SizeBytes, Iterations: rec.Iterations, PeakBits: rec.Bandwidth.PeakBitsPerS,
		AverageBits: rec.Bandwidth.AverageBitsPerS, MessagesPerS: rec.MessagesPerS,
	}
	r.result.Here.TicksPerNs = float64(r.perNs)
	e := endReport{Record: rec, arrival: x.arrival, Environment: &r.result.Here}
	if x.corrupt != nil {
		e.Corrupt = x.corrupt.Error()
	}
	var err error
	if f.Record, err = json.Marshal(e); err != nil {
		err = fmt.Errorf("this end's record: %w", err)
	}
	return f, err
}

// remoteReport reads the peer's figures; in perftest's dialect only the numbers come.
func (r *run) remoteReport(f control.Figures, local report.Record) (endReport, error) {
	var e endReport
	if len(f.Record) > 0 {
		if err := json.Unmarshal(f.Record, &e); err != nil {
			return e, fmt.Errorf("the peer's record: %w", err)
		}
		r.result.Peer = e.Environment
		return e, nil
	}
	e.Record = report.Record{
		Plan: local.Plan, Run: local.Run, DurationTest: local.DurationTest,
		Iterations: f.Iterations, Messages: f.Iterations, Bytes: f.Iterations * f.Size, MessagesPerS: f.MessagesPerS,
		Bandwidth: report.Bandwidth{AverageBitsPerS: f.AverageBits, PeakBitsPerS: f.PeakBits},
	}
	e.Record.SizeBytes = f.Size // which may be less than this end was told
	if f.MessagesPerS > 0 {
		e.Record.Seconds = float64(f.Iterations) / f.MessagesPerS
	}
	return e, nil
}

// merge makes the one record of a round from both ends' views; both ends come to the same.
func (r *run) merge(local, remote report.Record, here, there arrival) report.Record {
	from, to, atFrom, atTo := local, remote, here, there
	if r.plan.Role == plan.Target {
		from, to, atFrom, atTo = remote, local, there, here
	}
	out := from
	out.PeerCPU, out.PeerCounters, out.PeerThreads = to.CPU, to.Counters, to.PerThread
	out.Run = max(local.Run, remote.Run) // an end that goes on after earlier runs counts them, too
	own, others := local.Warnings, remote.Warnings
	// a result's peer is the server, whichever end sends
	if client := (r.plan.Role == plan.Initiator) != r.spec.Reversed; !client {
		own, others = others, own
	}
	out.Warnings = append(slices.Clone(own), plain.Each(others, func(w string) string { return "peer: " + w })...)
	// A perftest does not tell how much it received: its figures, and ours beside them, are of what was sent.
	lossy := r.plan.Ours() && r.spec.Transport != verbs.RC && r.spec.Kind == plan.Bandwidth
	counted := r.plan.Row.NeedsReceive()
	sent := atFrom.Sent
	if r.spec.Bidirectional {
		if sent += atTo.Sent; lossy && counted {
			deliver(&local, share(there.Received, here.Sent))
			deliver(&remote, share(here.Received, there.Sent))
		}
		r.addDirections(&out, local, remote)
	}
	switch {
	case !lossy:
	case !counted:
		r.deliverUncounted(&out, share(atFrom.Whole+atTo.Whole, sent))
	case r.spec.Bidirectional:
		out.Delivered = new(share(atFrom.Received+atTo.Received, sent))
	case from.Messages > 0:
		out.Delivered = new(share(atTo.Received, sent))
		out.Bandwidth, out.MessagesPerS = report.Bandwidth{}, 0
		// A receiver that was off the processor finds many at once: nothing arrives faster than it was sent.
		out.Bytes, out.Messages, out.Seconds = to.Bytes, to.Messages, max(to.Seconds, from.Seconds)
		setRates(&out)
		out.Series = to.Series // none where too little arrived for one
	}
	if d := out.Delivered; d != nil && *d > 0 && *d < mostDelivered {
		out.Warnings = append(out.Warnings, fmt.Sprintf(
			"lost: %.3g %% did not arrive: over %v nothing slows the sender down; try --rate %.0fM",
			100*(1-*d), r.spec.Transport, math.Ceil(0.9*out.Bandwidth.AverageBitsPerS/1e6)))
	}
	return out
}

// mostDelivered is a share below which a result says why messages were lost.
const mostDelivered = 0.99

// addDirections makes the record of a test in both directions of those of the two ends, each of what it sent. The ends
// need not start and stop together: the rates are those of the longer time.
func (r *run) addDirections(out *report.Record, local, remote report.Record) {
	out.Local, out.Remote = new(local.Bandwidth), new(remote.Bandwidth)
	out.Messages, out.Bytes = local.Messages+remote.Messages, local.Bytes+remote.Bytes
	out.Iterations = local.Iterations + remote.Iterations
	out.Seconds = max(local.Seconds, remote.Seconds)
	out.Bandwidth.PeakBitsPerS = local.Bandwidth.PeakBitsPerS + remote.Bandwidth.PeakBitsPerS
	setRates(out)
	if out.Series = nil; r.plan.Ours() { // a perftest has none
		out.Series = local.Series.Plus(remote.Series)
	}
}

// setRates computes the rates of a record from its counts.
func setRates(out *report.Record) {
	if out.Seconds > 0 {
		out.Bandwidth.AverageBitsPerS = float64(out.Bytes) * 8 / out.Seconds
		out.MessagesPerS = float64(out.Messages) / out.Seconds
	}
}

// deliver makes the figures of what left those of the share that arrived.
func deliver(out *report.Record, share float64) {
	out.Delivered = &share
	scaled := func(n uint64) uint64 { return uint64(math.Round(float64(n) * share)) }
	out.Messages, out.Bytes = scaled(out.Messages), scaled(out.Bytes)
	out.Bandwidth = report.Bandwidth{AverageBitsPerS: out.Bandwidth.AverageBitsPerS * share}
	out.MessagesPerS *= share
}

// deliverUncounted makes the figures of a WRITE that may be lost, of which no completion tells at the peer: where every
// message was compared, by those found whole; else nobody knows what arrived, and the figures are of what left.
func (r *run) deliverUncounted(out *report.Record, delivered float64) {
	if r.spec.Verify == plan.VerifyAll {
		if deliver(out, delivered); delivered < 1 { // nobody knows when what was lost would have come
			out.Series = nil
		}
		return
	}
	out.Warnings = append(out.Warnings, "messages that left: nobody counts which WRITEs arrive over "+
		r.spec.Transport.String())
}

// arrival is what an end sent in all, and what it knows of what arrived there.
type arrival struct {
	Sent     uint64 `json:"sent"`            // completions of sends, margins included
	Received uint64 `json:"received"`        // completions of receives
	Whole    uint64 `json:"whole,omitempty"` // messages compared and found whole
}

// share is the share of the sent messages that arrived. Both counts are of whole rounds, because an end that only
// counts cannot leave out margins.
func share(arrived, sent uint64) float64 { return min(float64(arrived)/float64(max(sent, 1)), 1) }
