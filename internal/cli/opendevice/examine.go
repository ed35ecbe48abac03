package opendevice

import (
	"os"
	"slices"
	"strings"

	"github.com/gobw/gobw/internal/doctor"
	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/ibv"
)

// Examine opens every device of this end and reads the system.
func Examine(c Config) (doctor.End, error) {
	end := doctor.End{Name: "this end", System: doctor.Inspect(os.DirFS("/"))}
	all, _, err := Providers(Config{Providers: c.Providers})
	if err != nil {
		return end, err
	}
	for _, p := range all {
		if i, is := p.(*ibv.Provider); is {
			if lib, err := i.Library(); err == nil {
				end.IBVLibrary = lib.Path
			}
		}
		names, err := p.Devices()
		if err != nil && p.Name() == "ibv" {
			end.IBVError, end.IBVRemedy = err.Error(), verbs.RemedyOf(err)
		}
		for _, n := range names {
			if c.Name != "" && !slices.ContainsFunc(c.Names(), func(named string) bool { return named == n.Name || strings.HasPrefix(named, n.Name+"@") }) {
				continue
			}
			listed := List(p, n)
			if listed.Info == nil {
				continue
			}
			d := doctor.Device{Info: *listed.Info, GIDs: map[int][]verbs.GIDEntry{}}
			for _, port := range listed.Ports {
				d.Ports = append(d.Ports, port.PortInfo)
				d.GIDs[port.Number] = port.GIDs
			}
			end.Devices = append(end.Devices, d)
		}
	}
	return end, nil
}
