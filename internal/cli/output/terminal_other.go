//go:build !unix

package output

import "os"

// NotifyStatus has no signal here.
func NotifyStatus(chan<- os.Signal) {}

// terminalOf is not asked for here.
func terminalOf(*os.File) (columns int, is bool) { return 0, false }
