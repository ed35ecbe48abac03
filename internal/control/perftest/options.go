package perftest

import (
	"fmt"
)

// Options is what perftest's dialect needs and the plan does not say.
type Options struct {
	// Version is the perftest version to advertise: "6.27" as a client. From "6.28" on the parameters are negotiated.
	// A server chooses by the client's version unless this is set.
	Version string
	// Gbits tells that this end's figures cross the wire in Gb/s (--report_gbits), not MiB/s. A server that negotiates
	// follows its client.
	Gbits bool
	// NoMarker hides that we are gobw, so that the peer speaks perftest's dialect even if it could speak ours.
	NoMarker bool
}

// Check refuses versions that cannot be advertised.
func (o Options) Check() error {
	if o.Version == "" {
		return nil
	}
	v, err := ParseVersion(o.Version)
	if err == nil && v < VersionOldest {
		err = fmt.Errorf("version %s: every perftest refuses one below %s", o.Version, VersionOldest)
	}
	return err
}
