package report

import "github.com/gobw/gobw/report/plain"

// Device says on what a document was measured: "roce0 (roce) on alpha, to roce0 on beta".
func (d *Document) Device() string {
	if d.Client.Device == "" {
		return ""
	}
	s := d.Client.Device
	provider, host := d.Client.Provider, d.Client.Host
	s += plain.When(provider != "" && provider != s, " (%s)", provider) + plain.When(host != "", " on %s", host)
	if sv := d.Server; sv != nil && sv.Host != "" && (sv.Host != d.Client.Host || sv.Device != d.Client.Device) {
		s += ", to " + sv.Device + " on " + sv.Host
	}
	return s
}

// Name of a document among several: its description, or the device and host.
func (d *Document) Name() string {
	if d.Description != "" {
		return d.Description
	}
	if s := d.Device(); s != "" {
		return s
	}
	return d.Tool
}
