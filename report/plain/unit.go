package plain

// Unit is a name for so many of a base unit.
type Unit struct {
	Of   float64
	Name string
}

// Units of figures, from the smallest.
var (
	Seconds      = []Unit{{1e-9, "ns"}, {1e-6, "us"}, {1e-3, "ms"}, {1, "s"}}
	BitsPerS     = []Unit{{1, "b/s"}, {1e3, "kb/s"}, {1e6, "Mb/s"}, {1e9, "Gb/s"}}
	MessagesPerS = []Unit{{1, "msg/s"}, {1e3, "kmsg/s"}, {1e6, "Mmsg/s"}}
)

// Fitting is the largest unit of which a value has one or more, or the smallest; of no units it has no name.
func Fitting(units []Unit, v float64) Unit {
	out := Unit{Of: 1}
	for i, u := range units {
		if i == 0 || max(v, -v) >= u.Of {
			out = u
		}
	}
	return out
}

// WithUnit writes a value in the unit that fits it.
func WithUnit(v float64, units []Unit) string {
	u := Fitting(units, v)
	return Number(v/u.Of) + " " + u.Name
}
