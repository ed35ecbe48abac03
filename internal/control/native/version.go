package native

import (
	"fmt"
)

// Version is the version of our dialect that this code speaks.
const Version = 1

// CheckVersion compares the versions of our dialect at both ends.
func CheckVersion(peer int, peerName string) error {
	switch {
	case peer > Version:
		return fmt.Errorf("the %s speaks gobw/%d, this end gobw/%d: upgrade this end", peerName, peer, Version)
	case peer < Version:
		return fmt.Errorf("the %s speaks gobw/%d, this end gobw/%d: upgrade the %s", peerName, peer, Version, peerName)
	}
	return nil
}
