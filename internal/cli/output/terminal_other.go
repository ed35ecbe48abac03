//go:build !unix

package output

import "os"

// NotifyStatus has no signal here.
func NotifyStatus(chan<- os.Signal) {}

// terminalColumns is not asked for here.
func terminalColumns(*os.File) int { return 0 }
