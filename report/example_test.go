package report_test

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/compare"
	"github.com/gobw/gobw/report/figure"
	"github.com/gobw/gobw/report/render"
)

// result is a file as 'gobw write alpha --runs 5 --save NAME' leaves it, here with figures of its own.
func result(name string, gigabits float64) string {
	d := &report.Document{
		Tool: "gobw", Version: "v1", Complete: true,
		Client: report.Environment{Host: "beta", Device: "mlx5_0", Provider: "ibv"},
	}
	for run := range 5 {
		d.Records = append(d.Records, report.Record{
			Plan: report.Plan{
				Operation: "write", Kind: "bandwidth", Transport: "RC", Direction: "out", SizeBytes: 65536, QPs: 1,
				TxDepth: 128, MTU: 4096,
			},
			Run:      run + 1,
			Messages: 5000, Seconds: 1, Bandwidth: report.Bandwidth{AverageBitsPerS: (gigabits + 0.1*float64(run)) * 1e9},
		})
	}
	if err := report.Save(name, d); err != nil {
		panic(err)
	}
	return name
}

// An outside program reads results, takes figures, compares and renders.
func Example() {
	dir, err := os.MkdirTemp("", "gobw-example-")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()

	old, err := report.Load(result(filepath.Join(dir, "old.json"), 90))
	if err != nil {
		panic(err)
	}
	now, err := report.Load(result(filepath.Join(dir, "new.json"), 81))
	if err != nil {
		panic(err)
	}

	bandwidth, _ := figure.Named("bw")
	for _, g := range figure.Groups(now.Records) {
		for _, row := range g.Rows {
			median, err := bandwidth.Over(row)
			if err != nil {
				panic(err)
			}
			fmt.Printf("%d B, median of %d runs: %s\n", row.Size, len(row.Runs), bandwidth.InUnit(median))
		}
	}

	c, err := compare.Documents([]*report.Document{old}, []*report.Document{now}, compare.Options{})
	if err != nil {
		panic(err)
	}
	fmt.Println(c.Points[0].InWords())

	if err := render.Documents(os.Stdout, "markdown", []*report.Document{now}); err != nil {
		panic(err)
	}
	// Output:
	// 65536 B, median of 5 runs: 81.20 Gb/s
	// worse: -10.0 %, between -10.3 % and -9.7 % (96.8 % interval)
	// mlx5\_0 (ibv) on beta
	//
	// ### write bandwidth, RC, 1 QP, MTU 4096, tx depth 128, medians of 5 runs
	//
	// | bytes | Gb/s | MiB/s |
	// | ---: | ---: | ---: |
	// | 65536 | 81.20 | 9680 |
}
