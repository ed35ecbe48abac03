// Package judge tells from the cells of a fabric test (who sent to whom, how fast)
// which hosts, links and trunks are slow.
//
// It works in logarithms, so that effects add: a cell is the level of its hop class, plus what its sender, its
// receiver and the path between them take away. Levels are medians, never extremes: a rule on the maximum accuses more
// and more healthy hosts as their number grows.
//
// The scheduled rounds only raise suspicion. Whether a subject (a host's sending or receiving side, a link, the trunk
// between two leaves) is slow is decided on fresh cells alone, measured with partners that are known to be good: first
// with the network busy, then alone. Each subject is decided by Wald's sequential probability ratio test of "as fast as
// the rest" against "slower by the least drop that matters", so that clear cases take three rounds and noisy ones as
// many as they need. One cell never decides: its weight is bounded. What the rounds do not settle is [CannotTell].
package judge
