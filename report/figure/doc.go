// Package figure gets the figures of records: what they are called, how they are measured, which way is better.
package figure
