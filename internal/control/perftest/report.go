package perftest

import (
	"encoding/binary"
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

// encodeReport makes the five items.
func encodeReport(f control.Figures, gbits bool) [ReportItems][8]byte {
	var b [ReportItems][8]byte
	unit := unitBits(gbits)
	binary.BigEndian.PutUint64(b[0][:], f.Size)
	binary.BigEndian.PutUint64(b[1][:], f.Iterations)
	for i, v := range []float64{f.PeakBits / unit, f.AverageBits / unit, f.MessagesPerS / 1e6} {
		binary.BigEndian.PutUint64(b[2+i][:], math.Float64bits(v))
	}
	return b
}

// DecodeReport reads the five items.
func DecodeReport(b [ReportItems][8]byte, gbits bool) control.Figures {
	float := func(i int) float64 { return math.Float64frombits(binary.BigEndian.Uint64(b[i][:])) }
	return control.Figures{
		Size:         binary.BigEndian.Uint64(b[0][:]),
		Iterations:   binary.BigEndian.Uint64(b[1][:]),
		PeakBits:     float(2) * unitBits(gbits),
		AverageBits:  float(3) * unitBits(gbits),
		MessagesPerS: float(4) * 1e6,
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
