//go:build !race

package roce

// underRace tells that the race detector looks at every byte that moves.
const underRace = false
