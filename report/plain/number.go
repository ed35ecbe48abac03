package plain

import (
	"fmt"
	"math"
	"strconv"
)

// Number writes a figure with three or four significant digits and no exponent: what is nearer to nothing is below
// 0.0001.
func Number(v float64) string {
	a := math.Abs(v)
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return "-"
	case v == 0:
		return "0"
	case a < 0.00009995 && v < 0:
		return ">-0.0001"
	case a < 0.00009995:
		return "<0.0001"
	}
	places := 2 - int(math.Floor(math.Log10(a*1.0005001)))
	if a >= 9.995 {
		places++
	}
	return strconv.FormatFloat(v, 'f', max(places, 0), 64)
}

// Bytes writes a size for people: 512 B, 4 KiB, 1.5 MiB.
func Bytes(v float64) string {
	unit := "B"
	for _, u := range []string{"KiB", "MiB", "GiB"} {
		if v < 1023.5 { // what rounds to 1024 is 1 of the next unit
			break
		}
		v /= 1024
		unit = u
	}
	if unit == "B" || v == math.Trunc(v) || v >= 999.5 { // 1020, and not 1.02e+03
		return fmt.Sprintf("%.0f %s", v, unit)
	}
	return fmt.Sprintf("%.3g %s", v, unit)
}
