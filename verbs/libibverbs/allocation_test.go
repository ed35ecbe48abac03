//go:build linux && cgo

package main

import (
	"testing"
	"unsafe"

	"github.com/gobw/gobw/verbs"
)

// TestSteadyStateAllocatesNothing posts, receives and polls as a program does, by the calls that C makes:
// once all is warm, nothing is allocated.
func TestSteadyStateAllocatesNothing(t *testing.T) {
	const events, messages = -1, 64
	check := func(what string, rc _Ctype_int) {
		t.Helper()
		if rc != 0 {
			t.Fatalf("%s: %d", what, rc)
		}
	}
	var pd, mr, key, cq _Ctype_uint
	var depth _Ctype_int
	memory := make([]byte, 1<<16)
	check("open", gobwOpen(events))
	defer func() { check("close", gobwClose(events)) }()
	check("allocate domain", gobwAllocPD(events, &pd))
	const access = int(verbs.AccessLocalWrite | verbs.AccessRemoteWrite)
	check("register",
		gobwRegister(pd, unsafe.Pointer(&memory[0]), 1<<16, _Ctype_ulong(uintptr(unsafe.Pointer(&memory[0]))),
			_Ctype_int(access), &mr, &key))
	check("create queue", gobwCreateCQ(0, events, nil, 1024, 0, &cq, &depth))
	var qps [2]verbs.QueuePair
	var handles, numbers [2]_Ctype_uint
	for i := range qps {
		queue := _Ctype_struct_vb_cq{handle: cq}
		a := _Ctype_struct_vb_qp_init_attr{send_cq: &queue, recv_cq: &queue, qp_type: _Ctype_int(verbs.RC)}
		a.cap.max_send_wr, a.cap.max_recv_wr, a.cap.max_send_sge, a.cap.max_recv_sge = 256, 256, 1, 1
		check("create queue pair", gobwCreateQP(pd, events, &a, 0, nil, &handles[i], &numbers[i]))
		qps[i] = find(handles[i]).device.(verbs.QueuePair)
	}
	connect(t, qps[0], qps[1])
	sge := _Ctype_struct_vb_sge{addr: _Ctype_ulong(uintptr(unsafe.Pointer(&memory[0]))), length: 64, lkey: key}
	var sends [messages]_Ctype_struct_vb_send_wr
	var receives [messages]_Ctype_struct_vb_recv_wr
	for i := range messages {
		sends[i] = _Ctype_struct_vb_send_wr{
			sg_list: &sge, num_sge: 1, opcode: _Ctype_uint(verbs.OpSend), send_flags: _Ctype_uint(verbs.Signaled),
		}
		receives[i] = _Ctype_struct_vb_recv_wr{sg_list: &sge, num_sge: 1}
		if i > 0 {
			sends[i-1].next, receives[i-1].next = &sends[i], &receives[i]
		}
	}
	var completions [32]_Ctype_struct_vb_wc
	round := func() {
		var bad *_Ctype_struct_vb_send_wr
		var worse *_Ctype_struct_vb_recv_wr
		check("post receives", gobwPostReceive(handles[1], &receives[0], &worse))
		check("post sends", gobwPostSend(handles[0], &sends[0], &bad, 0))
		for done := 0; done < 2*messages; {
			n := gobwPoll(cq, _Ctype_int(len(completions)), &completions[0], nil)
			for i := range completions[:max(n, 0)] {
				if completions[i].status != 0 {
					t.Fatal("status", completions[i].status)
				}
			}
			done += int(n)
		}
	}
	for range 20 {
		round()
	}
	if n := testing.AllocsPerRun(100, round); n != 0 {
		t.Errorf("%v allocations for %d messages, want 0", n, messages)
	}
}

func connect(t *testing.T, x, y verbs.QueuePair) {
	t.Helper()
	gid, err := device().DefaultGID()
	if err != nil {
		t.Fatal(err)
	}
	address := func(q verbs.QueuePair) verbs.Address {
		a, err := verbs.AddressOf(q, 1, gid, nil)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	ofX, ofY := address(x), address(y)
	for _, err := range []error{
		verbs.Connect(x, gid, ofX, ofY, verbs.DefaultConnect()), verbs.Connect(y, gid, ofY, ofX, verbs.DefaultConnect()),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
}
