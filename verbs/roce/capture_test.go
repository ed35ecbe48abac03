package roce

import (
	"bytes"
	"errors"
	"io"
	"net/netip"
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
				o := pairOptions{transport: verbs.RC, mtu: verbs.MTU4096, depth: 64, sges: 2, timeout: 14, rdAtomic: 4, bytes: 1 << 18}
				sent := uint64(0)
				omitted := uint64(0)
				t.Run("send", func(t *testing.T) {
					x := newEnd(t, limits, o)
					qp, err := x.pd.CreateQP(verbs.QueuePairOptions{SendCQ: x.cq})
					check(t, err)
					defer func() { check(t, qp.Close()) }()
					connect(t, x.device, x.qp, x.device, qp, o)
					connect(t, x.device, qp, x.device, x.qp, o)
					check(t, x.qp.PostSend([]verbs.SendRequest{{
						Opcode: verbs.OpWrite, Flags: verbs.Signaled, SGEs: []verbs.SGE{x.sge(0, 100_001)}, RemoteAddr: x.mr.Addr() + 1<<17, RKey: x.mr.RKey(),
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
	r, err := wire.NewPcapReader(file)
	check(t, err)
	for ; ; frames++ {
		_, frame, err := r.Next()
		if errors.Is(err, io.EOF) {
			return frames
		}
		check(t, err)
		ip, err := r.IP(frame)
		check(t, err)
		d, err := wire.ParseDatagram(ip)
		check(t, err)
		if d.Checksum == 0 || d.Checksum != d.UDPChecksum() {
			t.Fatalf("frame %d: UDP checksum %#x, want %#x", frames, d.Checksum, d.UDPChecksum())
		}
	}
}
