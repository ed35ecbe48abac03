//go:build !unix

package fabric

import "os"

// notifySnapshots has no signal here.
func notifySnapshots(chan<- os.Signal) {}
