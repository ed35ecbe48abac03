package cmdline

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/report/plain"
)

// synonyms are flags of other tools (iperf3, perftest, hyperfine, ethr) and other spellings. Each leads to flags of ours, the
// first that the command has, or to an advice.
var synonyms = map[string]string{ //nolint:gochecknoglobals // a constant table
	"all-sizes": "--all", "sweep": "--all", "len": "--size", "length": "--size", "msg-size": "--size", "message-size": "--size", "bytes": "--size --blocks",
	"block-size": "--blocks", "block-num": "--nums", "block-nums": "--nums", "stride": "--strides", "block": "--blocks", "num": "--nums --iters", "shapes": "--shape",
	"iterations": "--iters --runs", "count": "--iters --runs", "iters": "--duration --runs", "duration": "--runs --time", "seconds": "--duration --time", "secs": "--duration --time", "time": "--duration", "max-time": "--duration --time",
	"repeat": "--runs --pairs", "repetitions": "--runs --pairs", "min-runs": "--runs --pairs", "runs": "--pairs", "total": "--size",
	"P": "--qp", "parallel": "--qp", "queue-pairs": "--qp", "qps": "--qp", "streams": "--qp", "bitrate": "--rate", "bandwidth": "--rate", "limit": "--rate",
	"reverse": "--reversed", "bidir": "--bidirectional", "both": "--bidirectional", "depth": "--tx-depth", "queue-depth": "--tx-depth", "window": "--tx-depth", "min-time": "--duration", "strategies": "--only",
	"ud": "--connection UD", "uc": "--connection UC", "rc": "--connection RC", "udp": "--connection UD",
	"dev": "--device", "nic": "--device", "interface": "--device", "gid": "--gid-index", "affinity": "--cpu", "pin": "--cpu",
	"timeout": "--peer-timeout", "local": "--loopback", "listen-port": "--port",
	"validate": "--verify", "check": "--verify", "check-data": "--verify", "output": "--save", "logfile": "--save", "export": "--save", "file": "--save",
	"n": "--duration --runs", "D": "--runs", "o": "--save",
	"json": "--save FILE.json", "export-json": "--save FILE.json", "csv": "--save FILE.csv", "export-csv": "--save FILE.csv", "html": "--save FILE.html",
	"junit": "--save FILE.xml", "markdown": "--save FILE.md", "export-markdown": "--save FILE.md", "openmetrics": "--save FILE.prom", "plot": "--save FILE.html",
	"latex": "--save FILE.tex", "pictures": "--save FILE.html", "interval": "--save FILE.html", "percentiles": "--save FILE.json", "histogram": "--save FILE.html",
	"threshold": "--expect", "fail-on": "--expect", "min-bw": "--expect", "within": "--expect", "baseline": "--expect", "host": "HOST", "client": "HOST", "peer": "HOST", "server": "HOST",
	"bs": "--size --blocks", "blocksize": "--size --blocks", "runtime": "--duration --time", "iodepth": "--tx-depth", "numjobs": "--threads", "filename": "--device", "loops": "--runs --pairs",
	"plan": "PLAN", "config": "PLAN", "verbose": "--save FILE.json", "v": "--save FILE.json",
}

// answers are for flags that another of our commands has, or that are done otherwise here.
var answers = []struct{ command, flags, answer string }{ //nolint:gochecknoglobals // a constant table
	{"noncontig", "expect", "give it to a test of a plan: gobw qualify PLAN"},
	{"noncontig", "control", "'gobw ab' has a control: it runs A twice"},
	{"noncontig", "seed", "leave it out"},
	{"ab", "time", "use --pairs; after Ctrl-C it prints what it has measured"},
	{"qualify", "list", "give --print"},
	{"dips", "only fix", "dips changes the size only; 'gobw search best' has it"},
	{"gobw", "v", "type 'gobw version'"},
	{"golat", "v", "type 'golat version'"},
	{"fabric", "rank", "set RANK and WORLD_SIZE, or give --coordinator"},
	{"fabric", "ranks", "set WORLD_SIZE, or GOBW_RANKS in a Kubernetes Job"},
	{"fabric", "port p", "give --coordinator :PORT, and HOST:PORT at the other hosts"},
	{"fabric", "H peers nodelist hostfile", "give --hosts FILE, or --hosts node1,node2"},
	{"fabric", "D n duration iters", "give --round TIME for one round, --time TIME for all"},
	{"fabric", "secret token-file", "set GOBW_FABRIC_SECRET at all ranks"},
	{"compare", "priority", "measure again with it: chrt -r 1 gobw write HOST"},
	{"", "priority", "type 'chrt -r 1' before the command (docs/results.md, 'On a busy machine')"},
	{"compare", "runs", "measure again with it: gobw write HOST --runs 10"},
	{"devices", "verbose v", "name the device: gobw devices DEVICE"},
	{"version", "json", "give --format json"},
	{"", "threads", "only bandwidth tests have it: gobw write HOST --threads 2 -q 2 (on roce0 at most 1 per device)"},
	{"", "gap", "only latency tests have it: golat send HOST --gap 10us"},
	{"", "rate", "only bandwidth tests have it: gobw send HOST --rate 10G"},
	{"", "timestamps", "only latency tests have it: golat read HOST --timestamps device"},
	{"", "by", "'gobw search best' and 'gobw compare' have it"},
	{"", "rw readwrite", "the command is the operation: gobw write HOST, or gobw read HOST"},
	{"", "ioengine", "leave it out"},
	{"qualify", "dry-run", "plan and device are checked before the first test; --print shows the plan"},
	{"", "dry-run", "leave it out: flags and device are checked before the first test"},
}

// answer is what they say of a flag of a command; empty: nothing.
func answer(command, name string) string {
	for _, a := range answers {
		if (a.command == "" || a.command == command) && slices.Contains(strings.Fields(a.flags), name) {
			return "; " + a.answer
		}
	}
	return ""
}

// synonym says what the command has for a flag of another tool; empty where nothing is known.
func synonym(c *cobra.Command, name string) string {
	if len(name) > 1 {
		name = strings.ReplaceAll(strings.ToLower(name), "_", "-")
	}
	if said := answer(c.Name(), name); said != "" {
		return said
	}
	wanted := synonyms[name]
	first, value, _ := strings.Cut(wanted, " ")
	switch {
	case wanted == "":
		return ""
	case first == strings.ToUpper(first): // a word, not a flag
		if strings.Contains(c.Use, first) {
			return fmt.Sprintf("; write it without a flag: %s %s", c.CommandPath(), first) + plain.When(name == "server", "; to start a server: 'gobw serve'")
		}
		return ""
	case value != "" && !strings.HasPrefix(value, "--"): // a flag and its value
		if c.Flags().Lookup(first[2:]) == nil {
			return ""
		}
		if value == "UD" && slices.Contains([]string{"write", "read", "atomic"}, c.Name()) {
			return "; UD has only SEND: gobw send HOST --connection UD"
		}
		return "; type " + wanted
	}
	for flag := range strings.FieldsSeq(wanted) {
		if f := c.Flags().Lookup(flag[2:]); f != nil && f.Name != name && !f.Hidden {
			if f.Shorthand != "" {
				flag += " (-" + f.Shorthand + ")"
			}
			return "; type " + flag
		}
		if said := answer("", flag[2:]); said != "" {
			return said
		}
	}
	return ""
}

// otherWords are words that people type in place of our commands.
var otherWords = map[string]string{ //nolint:gochecknoglobals // a constant table
	"plot": "report FILE.json --save plot.html", "html": "report FILE.json --save page.html", "render": "report FILE.json", "show": "report FILE.json", "view": "report FILE.json",
	"list": "devices", "ls": "devices", "info": "devices", "device": "devices", "devinfo": "devices", "ibv_devinfo": "devices",
	"server": "serve", "listen": "serve", "daemon": "serve", "check": "doctor", "diagnose": "doctor", "test": "write HOST", "run": "write HOST", "client": "write HOST",
	"sweep": "write HOST -a", "diff": "compare OLD.json NEW.json", "trend": "compare DIR", "history": "compare DIR", "links": "version --install-links DIR", "install-links": "version --install-links DIR", "agent": "fabric --coordinator HOST", "ping": "golat send HOST", "pingpong": "golat send HOST",
	"latency": "golat send HOST", "bandwidth": "gobw write HOST", "bw": "gobw write HOST", "lat": "golat send HOST",
	"scatter": "gobw noncontig HOST", "gather": "gobw noncontig HOST", "pack": "gobw noncontig HOST", "grid": "gobw noncontig HOST",
	"register": "golat register", "connect": "golat connect", "noncontig": "gobw noncontig HOST", "qualify": "gobw qualify PLAN",
}

// otherWord is the command line for a word that is none of our commands; empty where nothing is known.
func otherWord(program, word string) string {
	line := otherWords[strings.ToLower(word)]
	if line != "" && !strings.HasPrefix(line, "gobw ") && !strings.HasPrefix(line, "golat ") {
		line = program + " " + line
	}
	return line
}

// iperf are the flags of iperf3 in our words, with "=" where a value follows; alone: they have no place here.
var iperf = map[string]string{ //nolint:gochecknoglobals // a constant table
	"t": "-D=", "time": "-D=", "P": "-q=", "parallel": "-q=", "l": "-s=", "length": "-s=", "b": "--rate=", "bitrate": "--rate=", "p": "-p=", "port": "-p=", "B": "--source=", "bind": "--source=",
	"R": "--reversed", "reverse": "--reversed", "bidir": "-b", "J": "--format json", "json": "--format json", "i": "=", "interval": "=", "w": "=", "window": "=", "O": "=", "omit": "=",
	"C": "=", "M": "=", "n": "=", "f": "=", "u": "", "udp": "", "V": "", "verbose": "", "4": "", "6": "", "Z": "", "N": "",
}

// WithoutCommand says what to type for a line that begins with a flag: iperf3's "-c HOST -t 10" and "-s", or flags of a test before
// any command; empty where it is neither.
func WithoutCommand(root *cobra.Command, args []string) string {
	if len(args) == 0 || !strings.HasPrefix(args[0], "-") || slices.ContainsFunc(args, func(word string) bool { return strings.Contains(word, " ") }) {
		return ""
	}
	tool, host, line, serves := root.Name(), "", "", false
	value := func(i int) string {
		if i+1 < len(args) && !strings.HasPrefix(args[i+1], "-") {
			return args[i+1]
		}
		return ""
	}
	for i := 0; i < len(args); i++ {
		name, given, has := strings.Cut(strings.TrimLeft(args[i], "-"), "=")
		flag, wants := strings.CutSuffix(iperf[name], "=")
		client := name == "c" || name == "client"
		if (wants || client) && !has && value(i) != "" {
			given = value(i)
			i++
		}
		switch {
		case client && !slices.Contains([]string{"", "RC", "UC", "UD"}, given):
			host = given
		case name == "server" || name == "s" && value(i) == "":
			serves = true
		case flag != "" && (tool == "gobw" || !slices.Contains([]string{"-q", "--rate", "--reversed", "-b"}, flag)):
			line += strings.TrimSuffix(" "+flag+" "+given, " ")
		}
	}
	first, _, _ := strings.Cut(strings.TrimLeft(args[0], "-"), "=")
	switch {
	case host != "":
		return fmt.Sprintf("the command comes first; type '%s %s %s%s'", tool, map[string]string{"gobw": "write", "golat": "send"}[tool], host, line)
	case serves:
		return fmt.Sprintf("the command comes first; type '%s serve%s'", tool, line)
	case testWith(root, first, plan.Write) != nil:
		return fmt.Sprintf("the command comes first; type '%s write %s'", tool, plain.JoinWords(args))
	}
	return ""
}
