// Suite runs every test of the kernel lab, in the lab (scripts/lab test) or on a machine's own RDMA devices
// (scripts/lab test --native), and prints a table per group and a verdict. It writes summary.json beside the commands'
// own output. Exit code: 0 all passed, 1 something failed, 2 bad usage, 3 nothing to test with.
//
// Groups: conformance (verbs/verbstest on the kernel's device), wire (our device against it, verb by verb), pingpong
// (rdma-core's pingpongs against examples/pingpong), tools (gobw and golat, every operation), plans (gobw qualify),
// perftest (our programs under perftest's names against the stock ones), events (the link goes down during a test).
package main
