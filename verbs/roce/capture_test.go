package roce

import (
	"bytes"
	"encoding/binary"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/roce/wire"
	"github.com/gobw/gobw/verbs/verbstest"
)

// TestCapture sends to itself over both families and reads the capture: checksums are those that the wire carries, the
// size is kept to.
func TestCapture(t *testing.T) {
	const size = 5000
	for _, address := range []netip.Addr{verbstest.Address(), netip.IPv6Loopback()} {
		for name, limits := range map[string]Options{"all": {}, "some": {PcapBytes: size}} {
			t.Run(address.String()+"/"+name, func(t *testing.T) {
				var file bytes.Buffer
				limits.Address, limits.Pcap = address, &file
				o := pairOptions{
					transport: verbs.RC, mtu: verbs.MTU4096, depth: 64, sges: 2, timeout: 14, rdAtomic: 4, bytes: 1 << 18,
				}
				sent := uint64(0)
				omitted := uint64(0)
				told := filepath.Join(t.TempDir(), "sent")
				check(t, os.WriteFile(told, nil, 0o600))
				t.Setenv(EnvSent, told)
				t.Run("send", func(t *testing.T) {
					x := newEnd(t, limits, o)
					qp, err := x.pd.CreateQP(verbs.QueuePairOptions{SendCQ: x.cq})
					check(t, err)
					defer func() { check(t, qp.Close()) }()
					connect(t, x.device, x.qp, x.device, qp, o)
					connect(t, x.device, qp, x.device, x.qp, o)
					check(t, x.qp.PostSend([]verbs.SendRequest{{
						Opcode: verbs.OpWrite, Flags: verbs.Signaled, SGEs: []verbs.SGE{x.sge(0, 100_001)},
						RemoteAddr: x.mr.Addr() + 1<<17, RKey: x.mr.RKey(),
					}}))
					if c := x.await(nil); c.Status != verbs.Success {
						t.Fatal(c.Status)
					}
					// Where the machine is busy an answer to a probe may follow the completion: until nothing moves.
					for still := 0; still < 3; still++ {
						c := counters(t, x)
						if n := c["sent_pkts"] + c["rcvd_pkts"]; n != sent {
							sent, still = n, 0
						}
						omitted = c["pcap_omitted"]
						<-time.After(20 * time.Millisecond)
					}
				})
				text, err := os.ReadFile(told)
				check(t, err)
				lines := strings.Fields(string(text))
				if n, err := strconv.Atoi(strings.Join(lines, "")); err != nil || len(lines) != 1 || n < 100_001 {
					t.Errorf("as it ended the device told %q bytes: want one number, of 100001 at least", lines)
				}
				frames := checkCapture(t, &file)
				if uint64(frames)+omitted != sent {
					t.Errorf("%d frames and %d omitted, want %d", frames, omitted, sent)
				}
				if limits.PcapBytes != 0 && omitted == 0 {
					t.Error("none omitted")
				}
			})
		}
	}
}

// checkCapture checks every frame and returns how many there are.
func checkCapture(t *testing.T, file *bytes.Buffer) (frames int) {
	t.Helper()
	list := readPcap(t, file)
	for i := range list {
		if d := &list[i]; d.Checksum == 0 || d.Checksum != d.UDPChecksum() {
			t.Fatalf("frame %d: UDP checksum %#x, want %#x", i, d.Checksum, d.UDPChecksum())
		}
	}
	return len(list)
}

// readPcap reads a capture file in the byte order of this machine, of Ethernet frames with UDP in them.
func readPcap(t testing.TB, r io.Reader) (list []wire.Datagram) {
	t.Helper()
	b, err := io.ReadAll(r)
	check(t, err)
	const fileHeader, recordHeader, ethernet = 24, 16, 14
	for b = b[fileHeader:]; len(b) > 0; {
		ip := b[recordHeader+ethernet:]
		n := int(binary.LittleEndian.Uint32(b[8:]))
		b = b[recordHeader+n:]
		d := wire.Datagram{}
		var source, dest []byte
		udp := ip[20:]
		if ip[0]>>4 == 4 {
			source, dest = ip[12:16], ip[16:20]
		} else {
			source, dest, udp = ip[8:24], ip[24:40], ip[40:]
		}
		address := func(a []byte, port int) netip.AddrPort {
			x, _ := netip.AddrFromSlice(a)
			return netip.AddrPortFrom(x, binary.BigEndian.Uint16(udp[port:]))
		}
		d.Source, d.Dest = address(source, 0), address(dest, 2)
		d.Checksum = binary.BigEndian.Uint16(udp[6:])
		d.Payload = udp[wire.UDPBytes:binary.BigEndian.Uint16(udp[4:])]
		list = append(list, d)
	}
	return list
}
