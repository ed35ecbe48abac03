package text

import (
	"fmt"

	"github.com/gobw/gobw/internal/perftest/flags"
	"github.com/gobw/gobw/internal/plan"
)

// columns are perftest's table of a kind of test: the text above it and a row of it, and what the JSON has in place of the row.
type columns struct {
	heading, row string // the row is a format of size, iterations and the cells' values
	cells        []cell
}

// cell is a figure, and its key and digits in the JSON.
type cell struct {
	key    string
	digits int
	value  float64
}

// columnsOf holds a row; that of the heading does not matter.
func columnsOf(v *flags.Invocation, r Row) columns {
	switch p := &v.Plan; {
	case p.Kind == plan.Latency && p.Duration > 0:
		return columns{
			" #bytes        #iterations       t_avg[usec]    tps average", " %-7d       %d            %-7.2f        %-7.2f",
			[]cell{{"t_avg", 2, r.Avg}, {"tps_average", 2, r.TPS}},
		}
	case p.Kind == plan.Latency:
		return columns{
			" #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec] ",
			" %-7d %d          %-7.2f        %-7.2f      %-7.2f  \t       %-7.2f     \t%-7.2f\t\t%-7.2f \t\t%-7.2f",
			[]cell{
				{"t_min", 2, r.Min},
				{"t_max", 2, r.Max},
				{"t_typical", 2, r.Typical},
				{"t_avg", 2, r.Avg},
				{"t_stdev", 2, r.Stdev},
				{"percentile_99", 2, r.P99},
				{"percentile_99.9", 2, r.P999},
			},
		}
	}
	unit, row, digits := "MB", " %-7d    %-10d       %-7.2f            %-7.2f\t\t   %-7.6f", 2
	if v.Style() == flags.Modern {
		unit, row = "MiB", " %-7d    %-10d       %-7.2f            %-7.2f\t\t     %-7.6f"
	}
	if v.Gbits {
		unit = "Gb"
	}
	if v.Gbits && r.Average < 0.1 {
		row, digits = " %-7d    %d           %-7.6f            %-7.6f            %-7.6f", 6
	}
	return columns{
		fmt.Sprintf(" #bytes     #iterations    BW peak[%s/sec]    BW average[%s/sec]   MsgRate[Mpps]", unit, unit), row,
		[]cell{{"BW_peak", digits, r.Peak}, {"BW_average", digits, r.Average}, {"MsgRate", 6, r.MsgRate}},
	}
}

// alone is the only figure that --output asks for.
func alone(v *flags.Invocation, r Row) cell {
	switch {
	case v.Output == "bandwidth":
		return cell{"bw_avg", 6, r.Average}
	case v.Output == "message_rate":
		return cell{"msgRate_avg", 6, r.MsgRate}
	case v.Plan.Duration > 0:
		return cell{"t_avg", 6, r.Avg}
	}
	return cell{"avg_lat", 6, r.Avg}
}

func (t *Text) heading() {
	t.printf("%s%s\n", columnsOf(&t.v, Row{}).heading, either(t.v.Plan.CPU, "    CPU_Util[%]", ""))
}

func (t *Text) row(r Row) {
	c, values := columnsOf(&t.v, r), []any{r.Size, r.Iterations}
	for _, x := range c.cells {
		values = append(values, x.value)
	}
	t.printf(c.row, values...)
	t.printf("%s\n", either(t.v.Plan.CPU, fmt.Sprintf("\t    %-3.2f", r.CPU), ""))
}
