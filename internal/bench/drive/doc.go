// Package drive runs the job of one round in slices: between them it looks at the clock, the devices and the
// peer, and it meets the peer at the end.
package drive
