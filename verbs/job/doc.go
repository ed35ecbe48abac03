// Package job is a measurement as data, and the loop that runs it.
//
// A [Job] says what to post on which queue pairs, how much to keep in flight, what to wait for and when to stop.
// [Prepare] compiles it and returns a [Runner], whose Run is the only call inside a measurement. A device that
// implements [Preparer] runs jobs itself; on any other device the loop of this package runs them over the device's
// verbs. A [Recorder] takes the samples.
package job
