package cmdline

import (
	"strings"

	"github.com/spf13/pflag"
)

// perftestNames are perftest's long options where ours are called differently, after underscores became dashes.
var perftestNames = map[string]string{ //nolint:gochecknoglobals // a constant table
	"ib-dev": "device", "inline-size": "inline", "use-srq": "srq", "write-with-imm": "imm", "write-imm": "imm",
	"send-imm": "imm", "sizes": "size",
	"send-with-imm": "imm", "latency-gap": "gap", "CPU-freq": "cpu-freq", "pkey-index": "pkey",
	"use-hugepages": "huge-pages",
	"out-json-file": "save", "bind-source-ip": "source", "transport": "connection", "source-ip": "source",
}

// NormalizeFlag lets perftest's spellings of long options through.
func NormalizeFlag(_ *pflag.FlagSet, name string) pflag.NormalizedName {
	name = strings.ReplaceAll(name, "_", "-")
	if ours, is := perftestNames[name]; is {
		name = ours
	}
	return pflag.NormalizedName(name)
}
