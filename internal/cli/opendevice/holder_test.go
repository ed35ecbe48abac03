package opendevice

import (
	"io/fs"
	"testing"
	"testing/fstest"
)

// TestPortHolder: a test of ours, another program, the kernel, and what cannot be seen are told apart.
func TestPortHolder(t *testing.T) {
	const udp = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref\n" +
		"  1: 0100007F:12B7 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 4711 2\n"
	process := func(command string) fstest.MapFS {
		return fstest.MapFS{
			"proc/net/udp":      {Data: []byte(udp)},
			"proc/77/cmdline":   {Data: []byte(command)},
			"proc/77/fd/3":      {Data: []byte("socket:[4711]"), Mode: fs.ModeSymlink},
			"proc/78/fd/3":      {Data: []byte("socket:[4712]"), Mode: fs.ModeSymlink},
			"sys/module/nfsd/x": {},
		}
	}
	for _, tt := range []struct {
		name   string
		files  fstest.MapFS
		what   string
		remedy string
	}{
		{
			"ours", process("/usr/bin/gobw\x00write\x00beta"),
			"another test runs on this host (process 77: /usr/bin/gobw write beta)", "wait for it: --wait 5m",
		},
		{
			"ours under perftest's name", process("ib_write_bw\x00"), "another test runs on this host (process 77: ib_write_bw)",
			"wait for it: --wait 5m",
		},
		{
			"another", process("python3\x00x.py"), "process 77 has it: python3 x.py",
			"stop that process, or test from another network namespace",
		},
		{
			"the kernel",
			fstest.MapFS{"proc/net/udp": {Data: []byte(udp)}, "sys/module/rdma_rxe/x": {}},
			"the kernel's Soft-RoCE (rdma_rxe) has it on every address", "",
		},
		{
			"another user",
			fstest.MapFS{"proc/net/udp6": {Data: []byte(udp)}},
			"a process of another user or container has it",
			"as root: ss -lunp 'sport = :4791'",
		},
	} {
		h := PortHolder(tt.files)
		if h.What() != tt.what || tt.remedy != "" && h.Remedy() != tt.remedy {
			t.Errorf("%s: %q, %q; want %q, %q", tt.name, h.What(), h.Remedy(), tt.what, tt.remedy)
		}
	}
}
