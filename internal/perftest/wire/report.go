package wire

import (
	"math"

	"github.com/gobw/gobw/internal/control"
)

// ReportItems is the number of 8-byte exchanges of a report: size, iterations, peak, average, message rate.
const ReportItems = 5

// unitBits is the unit of bandwidth in reports, in bits/s: Gb/s or MiB/s.
func unitBits(gbits bool) float64 { //nolint:revive // a flag of perftest's
	if gbits {
		return 1e9
	}
	return 8 * (1 << 20)
}

// encodeReport makes the items, each as the big-endian number that it is sent as.
func encodeReport(f control.Figures, gbits bool) [ReportItems]uint64 {
	unit := unitBits(gbits)
	return [...]uint64{
		f.Size, f.Iterations,
		math.Float64bits(f.PeakBits / unit), math.Float64bits(f.AverageBits / unit), math.Float64bits(f.MessagesPerS / 1e6),
	}
}

// DecodeReport reads the items.
func DecodeReport(m [ReportItems]uint64, gbits bool) control.Figures {
	unit := unitBits(gbits)
	return control.Figures{
		Size: m[0], Iterations: m[1],
		PeakBits: math.Float64frombits(m[2]) * unit, AverageBits: math.Float64frombits(m[3]) * unit, MessagesPerS: math.Float64frombits(m[4]) * 1e6,
	}
}

// plausible tells a report from bytes that fell out of step: finite, not negative, no more than a link can do.
func plausible(f control.Figures) bool {
	for _, v := range []float64{f.PeakBits, f.AverageBits, f.MessagesPerS} {
		if math.IsNaN(v) || v < 0 || v > 1e18 {
			return false
		}
	}
	return f.Size <= 1<<40
}
