// Package verbstest is the conformance suite of package verbs: what every provider must do, whatever it is made of.
//
// [Run] drives a [Pair] of ends through every transport and operation, the queue pair state machine, the completion
// statuses that can be provoked, events, shared receive queues, datagrams, memory windows, closing in the wrong order,
// and compares the device's job runner with the reference. It uses the API alone: no network, no files, no clock but
// time-outs, so that a compiled test binary runs anywhere.
//
// Queue pairs are connected by what the ends are told of each other, or as the [Pair] says.
//
// What a provider does differently on purpose is a row of its [Deviations]: a name, the other outcome, and a source.
// A row that says that the device lacks something is held to it.
package verbstest
