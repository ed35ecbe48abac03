// Package expect judges results by expectations such as "bw >= 0.9*line".
package expect
