package plot

import "math"

const (
	markerRadius = 3.6
	markerShapes = 6 // circle, square, diamond, triangle, triangle upside down, cross
)

// outline of a marker around a point.
func outline(at point, shape int) []point {
	r := markerRadius
	switch shape % markerShapes {
	case 1:
		r *= 0.88
		return []point{{at.x - r, at.y - r}, {at.x + r, at.y - r}, {at.x + r, at.y + r}, {at.x - r, at.y + r}}
	case 2:
		r *= 1.25
		return []point{{at.x, at.y - r}, {at.x + r, at.y}, {at.x, at.y + r}, {at.x - r, at.y}}
	case 3:
		r *= 1.2
		return []point{{at.x, at.y - r}, {at.x + r, at.y + 0.8*r}, {at.x - r, at.y + 0.8*r}}
	case 4:
		r *= 1.2
		return []point{{at.x, at.y + r}, {at.x + r, at.y - 0.8*r}, {at.x - r, at.y - 0.8*r}}
	case 5:
		a, b := 0.4*r, 1.15*r
		return []point{
			{at.x - a, at.y - b},
			{at.x + a, at.y - b},
			{at.x + a, at.y - a},
			{at.x + b, at.y - a},
			{at.x + b, at.y + a},
			{at.x + a, at.y + a},
			{at.x + a, at.y + b},
			{at.x - a, at.y + b},
			{at.x - a, at.y + a},
			{at.x - b, at.y + a},
			{at.x - b, at.y - a},
			{at.x - a, at.y - a},
		}
	}
	return circle(at, r)
}

func circle(at point, r float64) []point {
	const corners = 16
	out := make([]point, corners)
	for i := range out {
		sin, cos := math.Sincos(2 * math.Pi * float64(i) / corners)
		out[i] = point{at.x + r*cos, at.y + r*sin}
	}
	return out
}
