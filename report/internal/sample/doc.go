// Package sample has documents for tests.
package sample
