// Package wire is the RoCEv2 packet codec: transport headers, opcodes, the invariant CRC and capture files.
//
// A RoCEv2 packet is a UDP datagram to port [Port]: a base transport header ([BTH]), the extension headers its [Opcode]
// asks for, the payload, up to three bytes of padding and the invariant CRC. Headers are small structs by value with
// Append and Parse; where a packet is written into a buffer that exists already there are Put functions instead, and
// [ParsePacket] gives a view of a received packet without copying it. Nothing here knows sockets, clocks or queue
// pairs, and no decoder panics or allocates.
//
// Sources: InfiniBand Architecture Specification, volume 1, release 1.4, chapter 9 and annex A17.
package wire
