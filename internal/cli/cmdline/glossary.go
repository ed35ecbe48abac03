package cmdline

import (
	"slices"
	"strings"

	"github.com/gobw/gobw/report/plain"
)

// Term is a word of the field: what it means, and what to type to see it.
type Term struct {
	Names []string // the first is the one that the glossary is sorted by
	Text  string
	Type  string // a command line; empty: none shows it
}

// Glossary is what 'help TERM' and docs/glossary.md explain.
func Glossary() []Term { return glossary }

var glossary = []Term{
	{
		[]string{"atomic"},
		"An operation of 8 bytes in the peer's memory that nothing can come between: FETCH_AND_ADD or CMP_AND_SWAP.",
		"gobw atomic --loopback",
	},
	{
		[]string{"block"},
		"A run of contiguous bytes of a layout. A layout is block_num blocks of block_size bytes.",
		"gobw noncontig --loopback --blocks 64:4K --nums 64,256",
	},
	{
		[]string{"CQ", "completion queue"},
		"The queue in which the device reports that a request has finished. Programs poll it.",
		"gobw write --loopback -Q 1",
	},
	{
		[]string{"contiguous"},
		"The strategy that moves the same bytes without gaps. Nothing that packs or gathers can be faster.",
		"gobw noncontig --loopback --only contiguous",
	},
	{
		[]string{"crossover"},
		"The block size from which scatter/gather is faster than packing.",
		"gobw noncontig --loopback",
	},
	{
		[]string{"events", "completion channel"},
		"A way to sleep until a completion comes. It costs latency and saves CPU time.",
		"golat send --loopback -e",
	},
	{
		[]string{"fence"},
		"A flag of a request: it waits until earlier READs and atomics of its queue pair have finished. No test has it.",
		"",
	},
	{
		[]string{"G-WR", "gather write", "RWG-UP"},
		"Gather on WRITE: the NIC collects strided data from a scatter/gather list and writes it to one contiguous place.",
		"gobw noncontig --loopback --shape gather",
	},
	{
		[]string{"GID"},
		"The address of a port, as an IPv6 address is written. On RoCE it is the interface's IP address.",
		"gobw devices roce0",
	},
	{
		[]string{"GSSR", "SGRS", "gather send scatter receive"},
		"Gather on SEND, scatter on RECV: both ends have strided data, and the NICs collect and spread it.",
		"gobw noncontig --loopback --shape both",
	},
	{
		[]string{"imm", "immediate data"},
		"Four bytes that travel with a SEND or WRITE and appear in the peer's completion. A WRITE then takes a receive.",
		"gobw write --loopback --imm",
	},
	{
		[]string{"inline"},
		"The CPU copies the data into the request, so that the device needs no second read. It helps small messages.",
		"golat send --loopback -I 0",
	},
	{
		[]string{"layout", "vector", "subarray", "indexed"},
		"Where the pieces of a message lie in memory.",
		"gobw noncontig --loopback --layout vector:block=64,num=256,stride=256",
	},
	{
		[]string{"MR", "memory region", "lkey", "rkey"},
		"Memory that the device may use. Its lkey is for requests of this end, its rkey for requests of the peer.",
		"golat register -d roce0",
	},
	{
		[]string{"MTU"},
		"The most bytes of data in one packet: 256 to 4096. A UD message is one packet.",
		"gobw write --loopback -m 1024",
	},
	{
		[]string{"multicast"},
		"A UD SEND to a group of receivers. The tests under perftest's names have it: ib_send_bw -c UD -g.",
		"",
	},
	{
		[]string{"noncontig", "non-contiguous"},
		"Data in many pieces. Either the NIC gathers the pieces, or the CPU packs them first.",
		"gobw noncontig --loopback",
	},
	{
		[]string{"pack", "unpack"},
		"The CPU copies the pieces of a message into one buffer (pack), or back into their places (unpack).",
		"gobw noncontig --loopback --only pack,gather-write",
	},
	{
		[]string{"PSN"},
		"The number of a packet, of 24 bits. Receivers find lost packets by it.",
		"gobw write --loopback -n 100 --warmup 0 --pcap t.pcap",
	},
	{
		[]string{"QP", "queue pair"},
		"A send queue and a receive queue: one end of a connection.",
		"gobw write --loopback -q 4",
	},
	{
		[]string{"RC"},
		"Reliable connection: packets are acknowledged, and sent again if they are lost. All operations.",
		"gobw write --loopback -c RC",
	},
	{
		[]string{"RD", "XRC", "DC"},
		"Transports that gobw does not have. RD is in the specification, and no device has it.",
		"",
	},
	{
		[]string{"RDMA CM", "rdma_cm"},
		"The kernel's way to connect queue pairs by IP addresses. roce0 does not have it.",
		"gobw write HOST -R",
	},
	{
		[]string{"read"},
		"RDMA READ: this end fetches data from the peer's memory. The peer's CPU does nothing.",
		"gobw read --loopback",
	},
	{
		[]string{"RNR", "receiver not ready"},
		"A SEND found no receive at the peer. The peer asks for it again after a while.",
		"gobw send --loopback -r 16",
	},
	{
		[]string{"RoCE", "RoCEv2", "roce0", "Soft-RoCE", "rxe"},
		"RDMA over Ethernet: packets in UDP, port 4791. roce0 is our device in software, rxe0 the kernel's.",
		"gobw devices",
	},
	{
		[]string{"S-RD", "scatter read", "P-RRS"},
		"Scatter on READ: the NIC spreads what it reads over the entries of a scatter/gather list.",
		"gobw noncontig --loopback --shape scatter",
	},
	{
		[]string{"send", "recv", "receive"},
		"SEND: the data goes where a receive of the peer says. Each message needs one.",
		"gobw send --loopback",
	},
	{
		[]string{"SGE", "SGL", "sg_list", "scatter/gather", "IOV"},
		"An entry of the scatter/gather list of a request: address, length, lkey. A list has at most max_sge entries.",
		"gobw write --loopback --mix 4Kx4",
	},
	{
		[]string{"signaled", "cq-mod"},
		"A request with a completion. Tests ask for one at every n-th message only.",
		"gobw write --loopback -Q 1",
	},
	{
		[]string{"SRQ"},
		"A receive queue that several queue pairs share.",
		"gobw send --loopback -q 4 --srq",
	},
	{
		[]string{"stride"},
		"The bytes from the start of a block to the start of the next one. 2x is twice the block size.",
		"gobw noncontig --loopback --strides 2x,4K",
	},
	{
		[]string{"UC"},
		"Unreliable connection: nothing is acknowledged, and a lost packet loses its message. SEND and WRITE.",
		"gobw send --loopback -c UC",
	},
	{
		[]string{"UD"},
		"Unreliable datagram: a message is one packet, to any queue pair, and nothing slows a sender down. SEND only.",
		"gobw send --loopback -c UD --rate 1G",
	},
	{
		[]string{"units", "Gb/s", "MiB/s"},
		"1 Gb/s is 10^9 bits a second, 1 MiB/s is 2^20 bytes a second. Sizes: 4K is 4096 bytes.",
		"",
	},
	{
		[]string{"verbs", "libibverbs"},
		"The programming interface of RDMA devices.",
		"go doc github.com/gobw/gobw/verbs",
	},
	{
		[]string{"WR", "work request", "WQE"},
		"A request that a program posts to a queue: what to send, or where to receive.",
		"gobw write --loopback -l 16",
	},
	{
		[]string{"write"},
		"RDMA WRITE: this end puts data into the peer's memory. The peer's CPU does nothing.",
		"gobw write --loopback",
	},
}

// explain is the glossary's answer to words after 'help'; empty: it does not have them.
func explain(words []string) string {
	plainly := strings.NewReplacer("-", "", "_", "", " ", "", "/", "")
	same := func(a, b string) bool { return strings.EqualFold(plainly.Replace(a), plainly.Replace(b)) }
	asked := strings.Join(words, " ")
	for _, t := range glossary {
		if !slices.ContainsFunc(t.Names, func(name string) bool { return same(name, asked) }) {
			continue
		}
		lines := plain.WrapWith(strings.Join(t.Names, ", ")+": "+t.Text, HelpWidth, "")
		text := strings.Join(lines, "\n") + "\n"
		if t.Type != "" {
			text += "\n  " + t.Type + "\n"
		}
		return text
	}
	return ""
}
