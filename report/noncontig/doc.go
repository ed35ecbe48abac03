// Package noncontig judges a grid of the non-contiguous experiment: winners, crossovers.
package noncontig
