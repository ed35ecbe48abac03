package perftest

import (
	"encoding/binary"
	"math"

	"github.com/gobw/gobw/internal/control"
)

// ReportItems is the number of 8-byte exchanges of a report: size, iterations, peak, average, message rate.
const ReportItems = 5

// unit converts between bits/s and what perftest's reports carry.
type unit float64

// Units of a report, in bits/s.
const (
	UnitMiB  unit = 8 * (1 << 20)
	unitGbit unit = 1e9
)

func unitOf(gbits bool) unit {
	if gbits {
		return unitGbit
	}
	return UnitMiB
}

// encodeReport makes the five items.
func encodeReport(f control.Figures, u unit) [ReportItems][8]byte {
	var b [ReportItems][8]byte
	binary.BigEndian.PutUint64(b[0][:], f.Size)
	binary.BigEndian.PutUint64(b[1][:], f.Iterations)
	for i, v := range []float64{f.PeakBits / float64(u), f.AverageBits / float64(u), f.MessagesPerS / 1e6} {
		binary.BigEndian.PutUint64(b[2+i][:], math.Float64bits(v))
	}
	return b
}

// DecodeReport reads the five items.
func DecodeReport(b [ReportItems][8]byte, u unit) control.Figures {
	float := func(i int) float64 { return math.Float64frombits(binary.BigEndian.Uint64(b[i][:])) }
	return control.Figures{
		Size:         binary.BigEndian.Uint64(b[0][:]),
		Iterations:   binary.BigEndian.Uint64(b[1][:]),
		PeakBits:     float(2) * float64(u),
		AverageBits:  float(3) * float64(u),
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
