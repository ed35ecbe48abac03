//go:build race

package roce

// underRace tells that the race detector looks at every byte that moves: simulations that only one goroutine sees are then
// shorter.
const underRace = true
