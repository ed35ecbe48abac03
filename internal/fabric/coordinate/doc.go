// Package coordinate runs a test of many hosts from rank 0: it gathers the agents, opens their devices, lets them run the
// rounds of a schedule, and hands the cells to the judge, who asks for re-tests.
//
// A barrier never waits for a dead agent: one that was not heard for [Silence] is lost, and its flows of that round are void
// for its partners. One goroutine owns all state; each agent has a reader and a writer beside it.
package coordinate
