package cli

import (
	"strings"
	"testing"

	perftest "github.com/gobw/gobw/internal/perftest/run"
)

// TestPerftestMulticast: the server's queue pair joins a group, which it tells the client; in a latency test each end
// has one. All messages arrive, and the text is perftest's.
func TestPerftestMulticast(t *testing.T) {
	for _, tt := range []struct{ line, title, group string }{
		{"ib_send_bw -g -s 512 -n 100", "Send BW Multicast Test", "00:00:00:00:00:00:00:00:00:00:255:255:239:255:"},
		{"ib_send_bw -g -s 512 -n 100", "Send BW Multicast Test", "00:00:00:00:00:00:00:00:00:00:255:255:239:255:"},
		{
			"ib_send_bw -g -s 512 -n 100 -c RC -M 239.77.1.2", "Send BW Multicast Test",
			"00:00:00:00:00:00:00:00:00:00:255:255:239:77:01:02",
		},
		{
			"ib_send_bw -g -s 512 -n 100 -M 0:0:0:0:0:0:0:0:0:0:255:0xff:239:77:1:3", "Send BW Multicast Test",
			"00:00:00:00:00:00:00:00:00:00:255:255:239:77:01:03",
		},
		{
			"ib_send_lat -g -n 50 -M 239.77.1.4", "Send Latency Multicast Test",
			"00:00:00:00:00:00:00:00:00:00:255:255:239:77:01:04",
		},
		{"ib_send_lat -g -n 50", "Send Latency Multicast Test", "00:00:00:00:00:00:00:00:00:00:255:255:239:255:"},
	} {
		t.Run(tt.line, func(t *testing.T) {
			e := runPair(t, tt.line)
			if e.client != perftest.PerftestOK || e.server != perftest.PerftestOK {
				t.Fatalf("exit %d and %d\nclient: %s%s\nserver: %s%s", e.client, e.server, e.clientOut, e.clientErr, e.serverOut,
					e.serverErr)
			}
			for name, text := range map[string]string{"client": e.clientOut, "server": e.serverOut} {
				for _, want := range []string{
					tt.title + "\n MultiCast runs on UD!\n Dual-port       : OFF", " Connection type : UD", "QPN 0xffffff",
					" MGID: " + tt.group,
				} {
					if !strings.Contains(text, want) {
						t.Errorf("%s has no %q:\n%s", name, want, text)
					}
				}
				if n := strings.Count(text, "MGID: "); n != 1 {
					t.Errorf("%s prints %d groups, want the server's:\n%s", name, n, text)
				}
			}
		})
	}
}

// TestPerftestOnDemand: roce0 has memory that is never pinned.
func TestPerftestOnDemand(t *testing.T) {
	e := runPair(t, "ib_write_bw --odp -n 100 -s 64")
	if want := "--odp has no effect on roce0"; e.client != 0 || e.server != 0 || !strings.Contains(e.clientErr, want) {
		t.Errorf("exit %d and %d, want 0 with %q:\n%s", e.client, e.server, want, e.clientErr)
	}
}
