// Package bench is the measuring run: it compiles a plan into a job for a device, drives both ends through a control
// session, and turns what the recorder saw into records of a report.
//
// Everything that a feature changes is decided where the endpoint compiles the job, and stored there as data; the loop
// that runs while the clock runs knows no feature.
package bench
