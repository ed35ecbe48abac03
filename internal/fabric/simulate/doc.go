// Package simulate is a fabric of numbers: hosts, links and trunks with planted faults and noise. It answers rounds as a
// cluster would, so that schedules and judge can be tried without a network, and their error rates counted.
package simulate
