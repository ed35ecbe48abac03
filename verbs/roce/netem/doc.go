// Package netem emulates a bad network on the packets that a device receives, as tc-netem does in the kernel: loss
// alone or in bursts, duplication, reordering, delay, and a link of limited rate with a queue before it. Fates follow
// from a seed, so that a run can be repeated. It knows no sockets and no clock: time is an argument.
package netem
