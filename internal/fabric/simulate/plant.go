package simulate

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Plant is a planted fault.
type Plant struct {
	Kind   PlantKind
	A, B   int
	Rail   int     // AllRails: on all
	Factor float64 // what is left of the bandwidth, or of the speed
}

// AllRails is the Rail of a fault on all rails.
const AllRails = -1

// PlantKind is what is at fault.
type PlantKind string

// Kinds of planted fault.
const (
	PlantHost     PlantKind = "host"    // sends and receives slowly
	PlantSender   PlantKind = "send"    // sends slowly
	PlantReceiver PlantKind = "receive" // receives slowly
	PlantLink     PlantKind = "link"    // from A to B
	PlantTrunk    PlantKind = "trunk"   // from leaf A to leaf B
	PlantLoad     PlantKind = "load"    // a host that is slow only while others are busy
	PlantTail     PlantKind = "tail"    // a host whose latest messages are later still; the others are not
	PlantDead     PlantKind = "dead"    // a host that nobody reaches
)

// Size is what a fabric has of what faults can be planted in.
type Size struct{ Hosts, Leaves, Rails int }

// ParsePlants reads "host=17:-20%,link=3-900@1:-50%,trunk=0-1:-30%,dead=5": @1 is on rail 1 alone.
func ParsePlants(text string, of Size) ([]Plant, error) {
	var out []Plant
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		p, err := parsePlant(part, of)
		if err != nil {
			return nil, fmt.Errorf("planted fault %q: %w", part, err)
		}
		out = append(out, p)
	}
	return out, nil
}

func parsePlant(part string, of Size) (Plant, error) {
	kind, rest, found := strings.Cut(part, "=")
	p := Plant{Kind: PlantKind(kind), Factor: 1, Rail: AllRails}
	if !found {
		return p, fmt.Errorf("want KIND=WHERE:-N%%")
	}
	where, drop, hasDrop := strings.Cut(rest, ":")
	if hasDrop {
		percent, err := strconv.ParseFloat(strings.TrimSuffix(drop, "%"), 64)
		if err != nil || !strings.HasSuffix(drop, "%") || !(percent > -100 && percent < 0) {
			return p, fmt.Errorf("drop %q: want one between -100%% and 0%%, such as -20%%", drop)
		}
		p.Factor = 1 + percent/100
	}
	where, on, hasRail := strings.Cut(where, "@")
	if hasRail {
		n, err := strconv.Atoi(on)
		if err != nil || n < 0 || n >= of.Rails || p.Kind == PlantDead {
			return p, fmt.Errorf("@%s: want a rail from 0 to %d, of any fault but dead", on, of.Rails-1)
		}
		p.Rail = n
	}
	limit, two := of.Hosts, false
	switch p.Kind {
	case PlantHost, PlantSender, PlantReceiver, PlantLoad, PlantTail, PlantDead:
	case PlantLink:
		two = true
	case PlantTrunk:
		limit, two = of.Leaves, true
	default:
		return p, fmt.Errorf("want host, send, receive, load, tail, link, trunk or dead")
	}
	if (p.Kind == PlantDead) == hasDrop {
		return p, fmt.Errorf("every fault but dead has a drop, such as :-20%%")
	}
	a, b, isTwo := strings.Cut(where, "-")
	if isTwo != two {
		return p, fmt.Errorf("a link or trunk has two ends (3-900), others one")
	}
	numbers := []*int{&p.A}
	texts := []string{a}
	if two {
		numbers, texts = append(numbers, &p.B), append(texts, b)
	}
	for i, text := range texts {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 || n >= limit {
			return p, fmt.Errorf("%q: want a number from 0 to %d", text, limit-1)
		}
		*numbers[i] = n
	}
	if two && p.A == p.B {
		return p, fmt.Errorf("its two ends are the same")
	}
	return p, nil
}

// log is the fault as an addend in logarithms.
func (p Plant) log() float64 { return math.Log(p.Factor) }
