package verbs_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"github.com/gobw/gobw/verbs"
)

// A WRITE gathers: the entries of its list lie apart here, and arrive as one contiguous range. Ask [Limits].MaxSGE how
// many entries a device takes.
func ExampleSGE() {
	a, b := connected(verbs.QueuePairOptions{SendSGEs: 3})
	defer a.close()
	defer b.close()

	copy(a.memory[0:], "scatter")
	copy(a.memory[1000:], "/")
	copy(a.memory[2000:], "gather")
	check(a.qp.PostSend([]verbs.SendRequest{{
		Opcode: verbs.OpWrite, Flags: verbs.Signaled,
		SGEs:       []verbs.SGE{a.mr.SGE(0, 7), a.mr.SGE(1000, 1), a.mr.SGE(2000, 6)},
		RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey(),
	}}))
	a.await(1)
	fmt.Printf("%s\n", b.memory[:14])
	// Output: scatter/gather
}

// A READ scatters: one contiguous range of the peer comes into entries that lie apart here. [Limits].MaxSGERead may be
// smaller than MaxSGE.
func ExampleQueuePair_read() {
	a, b := connected(verbs.QueuePairOptions{SendSGEs: 2})
	defer a.close()
	defer b.close()

	copy(b.memory, "leftright")
	check(a.qp.PostSend([]verbs.SendRequest{{
		Opcode: verbs.OpRead, Flags: verbs.Signaled,
		SGEs:       []verbs.SGE{a.mr.SGE(0, 4), a.mr.SGE(2048, 5)},
		RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey(),
	}}))
	a.await(1) // the data is here
	fmt.Printf("%s, %s\n", a.memory[:4], a.memory[2048:2053])
	// Output: left, right
}

// A SEND gathers and a RECV scatters. Post the receive first. A message that finds none is sent again later; after too
// many attempts it completes with [RNRRetryExceeded].
func ExampleQueuePair_send() {
	a, b := connected(verbs.QueuePairOptions{SendSGEs: 2, RecvSGEs: 2})
	defer a.close()
	defer b.close()

	check(b.qp.PostReceive([]verbs.ReceiveRequest{{ID: 7, SGEs: []verbs.SGE{b.mr.SGE(100, 3), b.mr.SGE(200, 100)}}}))
	copy(a.memory, "onetwo")
	check(a.qp.PostSend([]verbs.SendRequest{{
		Opcode: verbs.OpSend, Flags: verbs.Signaled, SGEs: []verbs.SGE{a.mr.SGE(0, 2), a.mr.SGE(2, 4)},
	}}))
	got := b.await(1)[0]
	fmt.Printf("receive %d: %d bytes: %s, %s\n", got.ID, got.Bytes, b.memory[100:103], b.memory[200:203])
	// Output: receive 7: 6 bytes: one, two
}

// Atomics work on eight bytes of the peer, whose address is a multiple of eight. What was there before comes into the
// only entry.
func ExampleQueuePair_atomics() {
	a, b := connected(verbs.QueuePairOptions{})
	defer a.close()
	defer b.close()

	counter := b.memory[64:72]
	binary.NativeEndian.PutUint64(counter, 40)
	request := verbs.SendRequest{
		Flags: verbs.Signaled, SGEs: []verbs.SGE{a.mr.SGE(0, 8)}, RemoteAddr: b.mr.Addr() + 64, RKey: b.mr.RKey(),
	}
	add, swap := request, request
	add.Opcode, add.CompareAdd = verbs.OpFetchAdd, 2
	swap.Opcode, swap.CompareAdd, swap.Swap = verbs.OpCompareSwap, 42, 1000 // 1000, if it is 42
	for _, r := range []verbs.SendRequest{add, swap} {
		check(a.qp.PostSend([]verbs.SendRequest{r}))
		done := a.await(1)
		fmt.Println(done[0].Opcode, "found", binary.NativeEndian.Uint64(a.memory))
	}
	fmt.Println("now it is", binary.NativeEndian.Uint64(counter))
	// Output:
	// FETCH_ADD found 40
	// COMP_SWAP found 42
	// now it is 1000
}

// A WRITE makes no completion at the peer. With immediate data it does: it takes a receive there, whose list may be
// empty.
func ExampleSendRequest_immediate() {
	a, b := connected(verbs.QueuePairOptions{})
	defer a.close()
	defer b.close()

	check(b.qp.PostReceive([]verbs.ReceiveRequest{{}}))
	check(a.qp.PostSend([]verbs.SendRequest{{
		Opcode: verbs.OpWriteWithImmediate, Flags: verbs.Signaled, SGEs: []verbs.SGE{a.mr.SGE(0, copy(a.memory, "row 17"))},
		RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey(), Immediate: 17,
	}}))
	got := b.await(1)[0]
	fmt.Printf("%v: %d, %s\n", got.Opcode, got.Immediate, b.memory[:got.Bytes])
	// Output: RECV_RDMA_WITH_IMM: 17, row 17
}

// Queue pairs that share receives need fewer of them. The completion says for which queue pair a message came.
func ExampleSharedReceiveQueue() {
	a, b := newEnd(), newEnd()
	defer a.close()
	defer b.close()

	srq, err := b.pd.CreateSRQ(verbs.SharedReceiveQueueOptions{Depth: 16})
	check(err)
	b.made = append(b.made, srq)
	names := map[uint32]string{}
	for _, name := range []string{"first", "second"} {
		from, to := a.queuePair(verbs.QueuePairOptions{}), b.queuePair(verbs.QueuePairOptions{SRQ: srq})
		join(a, b, from, to)
		names[to.QPN()] = name
		check(srq.PostReceive([]verbs.ReceiveRequest{{SGEs: []verbs.SGE{b.mr.SGE(0, 64)}}}))
		check(from.PostSend([]verbs.SendRequest{{Opcode: verbs.OpSend, SGEs: []verbs.SGE{a.mr.SGE(0, 10)}}}))
		got := b.await(1)[0]
		fmt.Println(got.Bytes, "bytes on the", names[got.QPN], "queue pair")
	}
	// Output:
	// 10 bytes on the first queue pair
	// 10 bytes on the second queue pair
}

// A channel lets a program sleep until something completes. Arm the queue first, then poll until it is empty, and only
// then wait: what came before arming makes no event.
func ExampleCompletionChannel() {
	a, b := connected(verbs.QueuePairOptions{})
	defer a.close()
	defer b.close()

	channel, err := b.dev.CreateCompletionChannel()
	check(err)
	b.made = append(b.made, channel)
	cq, err := b.dev.CreateCQ(verbs.CompletionQueueOptions{Channel: channel})
	check(err)
	b.made = append(b.made, cq)
	from, to := a.queuePair(verbs.QueuePairOptions{}), b.queuePair(verbs.QueuePairOptions{SendCQ: cq})
	join(a, b, from, to)
	check(to.PostReceive([]verbs.ReceiveRequest{{ID: 1, SGEs: []verbs.SGE{b.mr.SGE(0, 64)}}}))

	check(cq.Arm(verbs.NotifyAny)) // NotifySolicited: only for messages sent with the flag Solicited
	check(from.PostSend([]verbs.SendRequest{{
		Opcode: verbs.OpSend, Flags: verbs.Solicited, SGEs: []verbs.SGE{a.mr.SGE(0, 5)},
	}}))
	completions := make([]verbs.Completion, 8)
	n, err := cq.Poll(completions)
	check(err)
	for n == 0 {
		woken, err := channel.Wait(context.Background())
		check(err)
		check(woken.Arm(verbs.NotifyAny))
		n, err = woken.Poll(completions)
		check(err)
	}
	fmt.Println(n, "completion of", completions[0].Opcode, completions[0].ID)
	// Output: 1 completion of RECV 1
}

// One UD queue pair sends to many: each request names an address handle, a queue pair number and its Q_Key. A message
// is one packet. In the receiver's memory 40 bytes for the routing header come first.
func ExampleAddressHandle() {
	a, b := connected(verbs.QueuePairOptions{Transport: verbs.UD})
	defer a.close()
	defer b.close()

	ah, err := a.pd.CreateAH(verbs.AddressVector{DGID: b.gid.GID, SGIDIndex: a.gid.Index, UseGID: true})
	check(err)
	a.made = append(a.made, ah)
	check(b.qp.PostReceive([]verbs.ReceiveRequest{{SGEs: []verbs.SGE{b.mr.SGE(0, verbs.GRHBytes+100)}}}))
	check(a.qp.PostSend([]verbs.SendRequest{{
		Opcode: verbs.OpSend, Flags: verbs.Signaled, SGEs: []verbs.SGE{a.mr.SGE(0, copy(a.memory, "datagram"))},
		AH: ah, RemoteQPN: b.qp.QPN(), RemoteQKey: 0x11111111,
	}}))
	got := b.await(1)[0]
	fmt.Println("from the other end:", got.SourceQPN == a.qp.QPN())
	fmt.Printf("%d bytes: %s\n", got.Bytes, b.memory[verbs.GRHBytes:got.Bytes])
	// Output:
	// from the other end: true
	// 48 bytes: datagram
}

// A multicast group delivers a copy to each queue pair that is attached to it. On Ethernet the group's GID is its IP
// address.
func ExampleQueuePair_AttachMulticast() {
	a, b := connected(verbs.QueuePairOptions{Transport: verbs.UD})
	defer a.close()
	defer b.close()

	group := verbs.GIDFromAddr(netip.MustParseAddr("239.255.77.1"))
	check(b.qp.PostReceive([]verbs.ReceiveRequest{{SGEs: []verbs.SGE{b.mr.SGE(0, verbs.GRHBytes+100)}}}))
	check(b.qp.AttachMulticast(group, 0))
	ah, err := a.pd.CreateAH(verbs.AddressVector{DGID: group, SGIDIndex: a.gid.Index, UseGID: true})
	check(err)
	a.made = append(a.made, ah)
	check(a.qp.PostSend([]verbs.SendRequest{{
		Opcode: verbs.OpSend, Flags: verbs.Signaled, SGEs: []verbs.SGE{a.mr.SGE(0, copy(a.memory, "to all"))},
		AH: ah, RemoteQPN: verbs.MulticastQPN, RemoteQKey: 0x11111111,
	}}))
	got := b.await(1)[0]
	fmt.Printf("%s\n", b.memory[verbs.GRHBytes:got.Bytes])
	check(b.qp.DetachMulticast(group, 0)) // a queue pair that is attached cannot be closed
	// Output: to all
}

// A memory window gives the peer a part of a region, for as long as it is bound. Its owner takes it back without
// touching the region.
func ExampleMemoryWindow() {
	a, b := connected(verbs.QueuePairOptions{})
	defer a.close()
	defer b.close()

	window, err := b.pd.AllocMW()
	check(err)
	b.made = append(b.made, window)
	key := window.RKey()&^0xff | (window.RKey()+1)&0xff // the low byte is ours to choose: a new one for each bind
	check(b.qp.PostSend([]verbs.SendRequest{{Opcode: verbs.OpBindMW, Flags: verbs.Signaled, Bind: &verbs.MemoryWindowBind{
		Window: window, Region: b.mr, RKey: key, Addr: b.mr.Addr() + 1024, Length: 16, Access: verbs.AccessRemoteWrite,
	}}}))
	b.await(1)

	write := verbs.SendRequest{
		Opcode: verbs.OpWrite, Flags: verbs.Signaled, SGEs: []verbs.SGE{a.mr.SGE(0, copy(a.memory, "hello"))},
		RemoteAddr: b.mr.Addr() + 1024, RKey: key,
	}
	check(a.qp.PostSend([]verbs.SendRequest{write}))
	a.await(1)
	fmt.Printf("%s\n", b.memory[1024:1029])

	check(
		b.qp.PostSend([]verbs.SendRequest{{Opcode: verbs.OpLocalInvalidate, Flags: verbs.Signaled, InvalidateRKey: key}}))
	b.await(1)
	check(a.qp.PostSend([]verbs.SendRequest{write}))
	_, err = verbs.Await(context.Background(), a.cq, 1)
	fmt.Println("refused:", errors.Is(err, verbs.RemoteAccessError))
	// Output:
	// hello
	// refused: true
}

// INLINE copies the data while posting, so the buffer is free at once. FENCE waits for earlier READs and atomics.
// Requests that are not SIGNALED complete with the next one that is: until that one is polled, all hold their places in
// the queue.
func ExampleSendFlags() {
	a, b := connected(verbs.QueuePairOptions{InlineBytes: 16})
	defer a.close()
	defer b.close()

	for i, word := range []string{"one ", "two ", "three"} {
		n := copy(a.memory, word) // the same bytes again
		check(a.qp.PostSend([]verbs.SendRequest{{
			Opcode: verbs.OpWrite, Flags: verbs.Inline, SGEs: []verbs.SGE{a.mr.SGE(0, n)},
			RemoteAddr: b.mr.Addr() + uint64(4*i), RKey: b.mr.RKey(),
		}}))
	}
	remote := verbs.SendRequest{RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()}
	read, write := remote, remote
	read.Opcode, read.SGEs = verbs.OpRead, []verbs.SGE{a.mr.SGE(100, 13)}
	write.Opcode, write.SGEs = verbs.OpWrite, []verbs.SGE{a.mr.SGE(100, 13)} // what was read
	write.RemoteAddr += 1000
	write.Flags = verbs.Fence | verbs.Signaled
	check(a.qp.PostSend([]verbs.SendRequest{read, write}))
	a.await(1)
	fmt.Printf("%s\n", b.memory[1000:1013])
	// Output: one two three
}

// A request that fails says why. It also moves the queue pair to the state ERR, where everything else is flushed: look
// at the first error.
func ExampleStatus() {
	a, b := connected(verbs.QueuePairOptions{})
	defer a.close()
	defer b.close()

	check(a.qp.PostSend([]verbs.SendRequest{{
		Opcode: verbs.OpWrite, Flags: verbs.Signaled, SGEs: []verbs.SGE{a.mr.SGE(0, 8)},
		RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey() + 1,
	}}))
	_, err := verbs.Await(context.Background(), a.cq, 1)
	if failed, is := errors.AsType[*verbs.CompletionError](err); is {
		status := failed.Completion.Status
		fmt.Printf("%s: %s\n", status.String(), status.Meaning())
	}
	fmt.Println(a.qp.State())
	// Output:
	// REM_ACCESS_ERR: the peer's memory protection refused the request
	// ERR
}
