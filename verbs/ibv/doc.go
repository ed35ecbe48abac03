// Package ibv is a provider of package verbs: the RDMA devices of libibverbs.
//
// The library is found with dlopen when a program asks for devices, so building needs no RDMA package and a binary runs
// on machines without one, where [Provider.Devices] answers with the reason and a remedy. What the C compiler sees is
// our own declaration of the ABI (abi.h), asserted against the real header by a test; each symbol is a row of
// symbols.h. librdmacm is looked for in the same way when a connection by RDMA CM is first asked for: it is told the
// numbers of queue pairs made here, and says what to set.
//
// C does three things here: it loads symbols, calls verbs, and runs jobs ([job.Job]) without coming back to Go for
// every message (loop.c). Memory that libibverbs may look at later lies outside the Go heap.
package ibv
