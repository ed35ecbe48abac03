package simulate

import (
	"math"
	"slices"
)

// Plant is a planted fault.
type Plant struct {
	Kind   PlantKind
	A, B   int
	Factor float64 // what is left of the bandwidth, or of the speed
	Rails  []int   // nil: on all
}

// PlantKind is what is at fault.
type PlantKind string

// Kinds of planted fault.
const (
	Host     PlantKind = "host"    // sends and receives slowly
	Sender   PlantKind = "send"    // sends slowly
	Receiver PlantKind = "receive" // receives slowly
	Link     PlantKind = "link"    // from A to B
	Trunk    PlantKind = "trunk"   // from leaf A to leaf B
	Load     PlantKind = "load"    // a host that is slow only while others are busy
	Tail     PlantKind = "tail"    // a host whose latest messages are later still; the others are not
	Dead     PlantKind = "dead"    // a host that nobody reaches
)

// on tells whether the fault is on a rail.
func (p Plant) on(rail int) bool { return p.Rails == nil || slices.Contains(p.Rails, rail) }

// log is the fault as an addend in logarithms.
func (p Plant) log() float64 { return math.Log(p.Factor) }
