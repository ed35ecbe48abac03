package wire

import (
	"encoding/binary"
	"math"

	"github.com/gobw/gobw/internal/control"
)

// ReportBytes is the length of a report, of which ReportItem bytes cross the wire at once.
const (
	ReportBytes = 5 * ReportItem
	ReportItem  = 8
)

// figures are a report as perftest has it.
type figures struct {
	Size, Iterations               uint64
	Peak, Average, MessagesPerUsec float64 // bandwidth in the unit of the test
}

// unitBits is the unit of bandwidth in reports, in bits/s: Gb/s or MiB/s.
func unitBits(gbits bool) float64 { //nolint:revive // a flag of perftest's
	if gbits {
		return 1e9
	}
	return 8 * (1 << 20)
}

// encodeReport makes the bytes of a report.
func encodeReport(f control.Figures, gbits bool) []byte {
	unit := unitBits(gbits)
	b, _ := binary.Append(nil, binary.BigEndian,
		figures{f.Size, f.Iterations, f.PeakBits / unit, f.AverageBits / unit, f.MessagesPerS / 1e6})
	return b
}

// DecodeReport reads the bytes of a report.
func DecodeReport(b []byte, gbits bool) control.Figures {
	var f figures
	_, _ = binary.Decode(b, binary.BigEndian, &f)
	unit := unitBits(gbits)
	return control.Figures{
		Size: f.Size, Iterations: f.Iterations, PeakBits: f.Peak * unit, AverageBits: f.Average * unit,
		MessagesPerS: f.MessagesPerUsec * 1e6,
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
