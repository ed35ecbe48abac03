//go:build linux

package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// What a stranger's message may cost a running server, and how soon the next honest client is served. Times of a busy machine are
// longer by what it is busy with.
const (
	mostServerMiB   = 64
	mostServerCPU   = 250 * time.Millisecond
	mostProcessMiB  = 512
	mostProcessCPU  = 2500 * time.Millisecond
	mostHonestDelay = time.Second
)

// stranger is a row of the table: what is sent, by so many connections at once.
type stranger struct {
	name, sends string
	connections int
}

const hello = "6.27\x00gobw/1\x00\x00\x00\x00\x00"

func framed(text string) string {
	return string(binary.BigEndian.AppendUint32(nil, uint32(len(text)))) + text
}

func greeting() string {
	return hello + framed(`{"kind":"hello","body":{"text":{"program":"x","bears_ms":3000}}}`)
}

// proposes is a client that proposes a plan of these fields.
func proposes(fields string) string {
	return greeting() + framed(`{"kind":"propose","body":{"kind":"bandwidth","transport":"RC",`+fields+`}}`)
}

// strangers are all rows. They are made of what a plan may say, each field at its ends, of layouts that stand for much, and of bytes that
// are no plan.
func strangers() []stranger {
	var rows []stranger
	add := func(name, sends string, connections int) {
		rows = append(rows, stranger{fmt.Sprintf("%s, %d bytes", name, len(sends)), sends, connections})
	}
	list := func(format string) string {
		var b strings.Builder
		for at := 0; b.Len() < 55<<10; at += 2 {
			fmt.Fprintf(&b, format+",", at)
		}
		return strings.TrimSuffix(b.String(), ",")
	}
	long := list("%d+1")
	layouts := []struct{ name, text string }{
		{"8,500 fields 252,644 times", "struct:" + long + ",num=252644"},
		{"two fields two million times, merged", "struct:0+1,2+1,extent=3,num=2097152,coalesce=yes"},
		{"two fields 2^39 times", "struct:0+1,2+1,extent=3,num=549755813888"},
		{"8,500 fields, merged", "struct:" + list("%d+2") + ",coalesce=yes"},
		{"8,500 blocks", "indexed:" + long},
		{"2^40 blocks", "vector:block=1,num=1099511627776,stride=2"},
		{"2^40 blocks, merged", "vector:block=1,num=1099511627776,stride=1,coalesce=yes"},
		{"a face of 2^40 rows", "subarray:dims=1048576x1048576x1048576,face=x,elem=1"},
		{"20,000 mistakes", "indexed:" + strings.Repeat("x,", 20000)},
		{"10,000 keys", "indexed:" + list("k%d=1")},
		{"50,000 dimensions", "subarray:dims=" + strings.Repeat("1x", 25000) + "1,face=x"},
		{"a file", "indexed:file=/dev/zero"},
	}
	for _, l := range layouts {
		for _, s := range []string{"gather/gather-write", "gather/pack-pipelined", "gather/multi-wr", "scatter/scatter-read", "both/gather-send", "both/pack-send-unpack"} {
			shape, strategy, _ := strings.Cut(s, "/")
			operation := map[string]string{"gather": "write", "scatter": "read", "both": "send"}[shape]
			for _, more := range []string{`"window":1,"segment":32768`, `"window":4096,"segment":1,"list_bytes":3,"footprint":70368744177664`} {
				add(l.name+", "+s, proposes(fmt.Sprintf(`"operation":%q,"iterations":1,"noncontig":{"shape":%q,"strategy":%q,"layout":%q,%s}`, operation, shape, strategy, l.text, more)), 1)
			}
		}
	}
	for _, field := range []string{"iterations", "duration_ns", "margin_ns", "warmup", "runs", "qps", "threads", "rails", "tx_depth", "rx_depth", "cq_mod", "post_list", "burst", "gap_ns", "pkey_index"} {
		for _, v := range []string{"-9223372036854775808", "0", "1048576", "9223372036854775807", "1e400"} {
			add(field+" "+v, proposes(fmt.Sprintf(`"operation":"write",%q:%s`, field, v)), 1)
		}
	}
	for name, fields := range map[string]string{
		"4096 sizes, a million runs":   `"operation":"write","runs":1048576,"sizes":[` + strings.Repeat("64,", 4095) + `64]`,
		"20,000 sizes":                 `"operation":"write","sizes":[` + strings.Repeat("1,", 20000) + `1]`,
		"16,384 flow labels":           `"operation":"write","flow_labels":[` + strings.Repeat("1,", 16383) + `1]`,
		"verified for ever":            `"operation":"read","verify":"all","tx_depth":1,"iterations":1099511627776`,
		"16,000 deep queue pairs":      `"operation":"write","qps":16000,"tx_depth":15000,"reversed":true,"mr_per_qp":true`,
		"all sizes, 256 queue pairs":   `"operation":"write","all_sizes":true,"qps":256`,
		"63 MiB that are granted":      `"operation":"write","sizes":[29360128],"iterations":1`,
		"a pace of 5e-324":             `"operation":"write","rate_bits_per_s":5e-324`,
		"timers at their ends":         `"operation":"write","qp_timeout":31,"retries":7`,
		"a test that is granted":       `"operation":"write","sizes":[64],"iterations":100`,
		"a test of 30 s, left at once": `"operation":"write","sizes":[64],"duration_ns":30000000000,"reversed":true`,
	} {
		add(name, proposes(fields), 1)
	}
	for name, sends := range map[string]string{
		"nothing":                        "",
		"HTTP":                           "GET / HTTP/1.0\r\n\r\n",
		"a hello":                        hello,
		"a plan that is brackets":        greeting() + framed(`{"kind":"propose","body":`+strings.Repeat("[", 60000)),
		"a plan that is brackets, right": greeting() + framed(`{"kind":"propose","body":`+strings.Repeat("[", 30000)+strings.Repeat("]", 30000)+`}`),
		"a plan that is one string":      greeting() + framed(`{"kind":"propose","body":{"operation":"`+strings.Repeat("x", 60000)+`"}}`),
		"a plan of 10,000 fields":        greeting() + framed(`{"kind":"propose","body":{`+strings.TrimSuffix(strings.Repeat(`"a":1,`, 9000), ",")+`}}`),
		"8 MiB before the hello":         hello + framed(strings.Repeat("x", 8<<20)),
		"8 MiB for a plan":               greeting() + framed(strings.Repeat("x", 8<<20)),
		"60 KiB for a hello":             hello + framed(strings.Repeat("x", 60<<10)),
		"100,000 heartbeats":             greeting() + strings.Repeat(framed(""), 100000),
		"facts of 900 KB":                proposes(`"operation":"write","sizes":[64],"iterations":100`) + framed(`{"kind":"facts","body":{"environment":"`+strings.Repeat("x", 900000)+`"}}`),
		"perftest's keys":                "6.29\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00" + strings.Repeat("\xff", 60000),
		"an unknown version":             "6.27\x00gobw/9\x00\x00\x00\x00\x00",
		"half a plan":                    greeting() + "\x00\x00\xff\x00{",
	} {
		add(name, sends, 1)
		add(name+", 24 at once", sends, 24)
	}
	add("8,500 fields 252,644 times, 24 at once", proposes(`"operation":"write","iterations":1,"noncontig":{"shape":"gather","strategy":"pack-pipelined","layout":"`+layouts[0].text+`","window":1,"segment":32768}`), 24)
	slices.SortFunc(rows, func(a, b stranger) int { return strings.Compare(a.name, b.name) })
	return rows
}

// costs sends each of the rows to a running server, every n-th of them, and measures what it takes of it.
func costs(ctx context.Context, gobw string, every int) error {
	s, err := startServer(gobw, "--max-memory", "64M", "--max-duration", "30s")
	if err != nil {
		return err
	}
	fmt.Println("server: its own process, peak since the row began; process: the largest that it started; next: when the next honest client had its result")
	fmt.Printf("%8s %8s %8s %8s %8s %8s  %s\n", "answer_s", "srv_MiB", "srv_ms", "proc_MiB", "proc_ms", "next_ms", "connections, what is sent")
	var wrong []error
	late := 0
	for i, row := range strangers() {
		if i%every != 0 || ctx.Err() != nil {
			continue
		}
		c := s.cost(ctx, row)
		for again := 0; again < 2 && row.tooDear(c); again++ { // time that a host takes from its virtual machine counts as this one's
			c = s.cost(ctx, row)
		}
		fmt.Printf("%8.2f %8.1f %8.0f %8.1f %8.0f %8.0f  %d: %s\n", c.answered.Seconds(), c.serverMiB, c.serverCPU.Seconds()*1e3, c.processMiB, c.processCPU.Seconds()*1e3,
			c.next.Seconds()*1e3, row.connections, row.name)
		if c.next > mostHonestDelay {
			late++
		}
		if row.tooDear(c) {
			wrong = append(wrong, fmt.Errorf("%s: %+v", row.name, c))
		}
	}
	fmt.Printf("%d rows too dear; after %d the next honest client waited for more than %v\n", len(wrong), late, mostHonestDelay)
	if err := s.stop(); err != nil {
		wrong = append(wrong, fmt.Errorf("the server ended with %w:\n%s", err, s.last(20)))
	}
	return errors.Join(wrong...)
}

// cost is what a row took.
type cost struct {
	answered, serverCPU, processCPU, next time.Duration
	serverMiB, processMiB                 float64
	err                                   error
}

func (r stranger) tooDear(c cost) bool {
	n := time.Duration(r.connections)
	return c.err != nil || c.serverMiB > mostServerMiB || c.serverCPU > n*mostServerCPU || c.processMiB > mostProcessMiB || c.processCPU > n*mostProcessCPU
}

// cost measures a row: until it is answered, or for a second, and then until the next honest client has its result.
func (s *server) cost(ctx context.Context, row stranger) (c cost) {
	pid := s.cmd.Process.Pid
	_ = os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0) // the peak begins anew
	cpu, children := cpuOf(pid), childrenCPU(pid)
	stop, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		for {
			for _, child := range s.children() {
				c.processMiB = max(c.processMiB, peakOf(child))
			}
			select {
			case <-stop:
				return
			case <-time.After(2 * time.Millisecond):
			}
		}
	}()
	began := time.Now()
	var wg sync.WaitGroup
	for range row.connections {
		wg.Go(func() {
			conn, err := s.dial()
			if err != nil {
				return
			}
			defer func() { _ = conn.Close() }()
			_ = conn.SetDeadline(time.Now().Add(time.Second))
			_, _ = io.WriteString(conn, row.sends)
			_, _ = io.Copy(io.Discard, conn)
		})
	}
	wg.Wait()
	c.answered = time.Since(began)
	close(stop)
	<-watched
	began = time.Now()
	c.err = honest(ctx, s, soakPlan(rand.New(rand.NewPCG(1, 1))))
	c.next = time.Since(began)
	c.serverMiB, c.serverCPU, c.processCPU = peakOf(pid), cpuOf(pid)-cpu, childrenCPU(pid)-children
	return c
}

// peakOf is the most memory that a process has had, in MiB.
func peakOf(pid int) float64 {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	_, rest, _ := strings.Cut(string(text), "VmHWM:")
	kB, _ := strconv.ParseFloat(strings.Fields(rest + " 0")[0], 64)
	return kB / 1024
}

// cpuOf is the processor time of a process's threads.
func cpuOf(pid int) (total time.Duration) {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	for _, f := range files {
		text, _ := os.ReadFile(f)
		ns, _ := strconv.ParseInt(strings.Fields(string(text) + " 0")[0], 10, 64)
		total += time.Duration(ns)
	}
	return total
}

// childrenCPU is the processor time of the processes that a process has started and waited for.
func childrenCPU(pid int) time.Duration {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 15 {
		return 0
	}
	user, _ := strconv.Atoi(fields[13])
	system, _ := strconv.Atoi(fields[14])
	return time.Duration(user+system) * 10 * time.Millisecond
}

// send is a stranger of the table who goes, or stays.
func (r stranger) send(s *server, stays bool) net.Conn { //nolint:revive // whether it stays
	conn, err := s.dial()
	if err != nil {
		return nil
	}
	_, _ = io.WriteString(conn, r.sends)
	if stays {
		return conn
	}
	_ = conn.Close()
	return nil
}
