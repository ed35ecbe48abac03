package figure

import (
	"cmp"
	_ "embed"
	"maps"
	"slices"
	"strings"

	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/plain"
	"github.com/gobw/gobw/report/stats"
)

//go:embed counters.txt
var counters string

// event is something that devices count: a row of the table.
type event struct {
	word    string // of expectations, which any device understands; empty: none
	meaning string
	sets    [][]string // what devices call it: the first set of which a device has any is summed
}

// events are those of errors; of two that count the same name the first has its meaning.
func events() []event {
	return plain.Each(plain.Rows(counters), func(row []string) event {
		return event{strings.TrimPrefix(row[0], "-"), row[1], plain.Each(strings.Split(row[2], ";"), strings.Fields)}
	})
}

// CounterNames are words for device error counters that expectations may use before any device is asked.
func CounterNames() []string {
	words := plain.Each(events(), func(e event) string { return e.word })
	return slices.DeleteFunc(words, func(word string) bool { return word == "" })
}

// Any stands for the ends that count, in [CounterOf].
const Any = "any"

// CounterOf reads a device counter of one end, "local" or "peer", or the sum of both: "". There is no sum if an end
// does not count it.
func CounterOf(end, name string) Figure {
	said := name
	if end == "local" || end == "peer" {
		said = end + "." + name
	}
	return Figure{
		Name: said, Direction: stats.LowerIsBetter, Scale: 1,
		counter: func(r *report.Record) string {
			_, _, here := counted(name, r.Counters)
			_, _, there := counted(name, r.PeerCounters)
			switch end {
			case "local":
				return here
			case "peer":
				return there
			}
			return cmp.Or(here, there)
		},
		read: func(r *report.Record) (float64, string) {
			local, here, _ := counted(name, r.Counters)
			peer, there, _ := counted(name, r.PeerCounters)
			switch {
			case here && end == "local":
				return local, ""
			case there && end == "peer":
				return peer, ""
			case end == "" && here && there, end == Any && (here || there):
				return local + peer, ""
			case end == "" && here != there:
				return 0, "one end does not count it: use local." + name + " or peer." + name + " alone"
			}
			have := slices.Concat(slices.Collect(maps.Keys(r.Counters)), slices.Collect(maps.Keys(r.PeerCounters)))
			if len(have) == 0 {
				return 0, "the device reported no counters"
			}
			slices.Sort(have)
			have = slices.Compact(have)
			return 0, "the device has no such counter" +
				plain.When(!slices.Contains(CounterNames(), name), "%s; it has %v", plain.Suggest(name, have), have)
		},
	}
}

// counted reads a counter of one end by the device's name or by our word, and says why its change cannot be true.
func counted(name string, counters map[string]int64) (sum float64, found bool, impossible string) {
	add := func(c string) {
		v, ok := counters[c]
		if v < 0 {
			impossible = fell(c, v)
		}
		sum, found = sum+float64(v), found || ok
	}
	if add(name); found {
		return sum, found, impossible
	}
	for _, e := range events() {
		if e.word != name {
			continue
		}
		for _, set := range e.sets {
			for _, c := range set {
				add(c)
			}
			if found {
				return sum, found, impossible
			}
		}
	}
	return 0, false, ""
}

// counterMeaning says what a device's error counter counts; "" for counters of traffic and for unknown ones.
func counterMeaning(name string) string {
	for _, e := range events() {
		if e.word == name || slices.Contains(slices.Concat(e.sets...), name) {
			return e.meaning
		}
	}
	return ""
}
