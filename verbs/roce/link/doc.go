// Package link carries RoCEv2 packets between UDP sockets: it builds batches with their ICRC and sends
// them in few calls of the kernel, receives what the kernel has joined, and knows from which source
// each packet came. It knows no queue pair.
package link
