package text

import (
	"github.com/gobw/gobw/internal/perftest/flags"
	"github.com/gobw/gobw/internal/plan"
)

// columns are what the table and its JSON show of a row.
type columns struct {
	Row
	*flags.Invocation
	Latency, Modern bool
	Unit            string // of bandwidth
	Tiny            bool   // too little bandwidth for two digits
}

func columnsOf(v *flags.Invocation, r Row) columns {
	c := columns{Row: r, Invocation: v, Latency: v.Plan.Kind == plan.Latency, Modern: v.Style() == flags.Modern}
	c.Unit, c.Tiny = either(c.Modern, "MiB", "MB"), v.Gbits && r.Average < 0.1
	if v.Gbits {
		c.Unit = "Gb"
	}
	return c
}

func (t *Text) heading() { t.printf("%s", fill("heading", columnsOf(&t.v, Row{}))) }

func (t *Text) row(r Row) { t.printf("%s", fill("row", columnsOf(&t.v, r))) }
