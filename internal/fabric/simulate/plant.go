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
	Factor float64 // what is left of the bandwidth
}

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
	PlantDead     PlantKind = "dead"    // a host that nobody reaches
)

// ParsePlants reads "host=17:-20%,link=3-900:-50%,trunk=0-1:-30%,dead=5" for a fabric of so many hosts and leaves.
func ParsePlants(text string, hosts, leaves int) ([]Plant, error) {
	var out []Plant
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		p, err := parsePlant(part, hosts, leaves)
		if err != nil {
			return nil, fmt.Errorf("planted fault %q: %w", part, err)
		}
		out = append(out, p)
	}
	return out, nil
}

func parsePlant(part string, hosts, leaves int) (Plant, error) {
	kind, rest, found := strings.Cut(part, "=")
	p := Plant{Kind: PlantKind(kind), Factor: 1}
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
	limit, two := hosts, false
	switch p.Kind {
	case PlantHost, PlantSender, PlantReceiver, PlantLoad, PlantDead:
	case PlantLink:
		two = true
	case PlantTrunk:
		limit, two = leaves, true
	default:
		return p, fmt.Errorf("want host, send, receive, load, link, trunk or dead")
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
