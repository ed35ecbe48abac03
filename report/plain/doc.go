// Package plain is text for people: numbers, wrapped lines, the word that was meant.
package plain
