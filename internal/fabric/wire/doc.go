// Package wire is the conversation between the coordinator of a fabric test and its agents, and between an agent and the
// processes that measure for it: frames of JSON, and the proof that both ends belong to the same run.
package wire
