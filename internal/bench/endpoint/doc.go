// Package endpoint is one end's objects for a test: the rails it runs on, its memory, its queue pairs, and the messages
// in its memory as rings that a job posts and as data that is compared.
package endpoint
