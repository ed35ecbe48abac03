//go:build !unix

package output

import "os"

// NotifyStatus has no signal here.
func NotifyStatus(chan<- os.Signal) {}
