// Package rankzero coordinates a run. It gathers the agents, opens their devices, lets them run the rounds of a
// schedule, and hands the cells to the judge, who asks for re-tests.
//
// A barrier never waits for a dead agent: one that was not heard for [Silence] is lost, and its flows of that round are
// void for its partners. One goroutine owns the coordinator's state; each agent has one beside it.
package rankzero
