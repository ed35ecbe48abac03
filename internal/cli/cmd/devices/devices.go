// Package devices is the command 'devices'.
package devices

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gobw/gobw/internal/cli/cmdline"
	"github.com/gobw/gobw/internal/cli/exit"
	"github.com/gobw/gobw/internal/cli/opendevice"
	"github.com/gobw/gobw/internal/cli/output"
	"github.com/gobw/gobw/report/plain"
	"github.com/gobw/gobw/report/render"
	"github.com/gobw/gobw/verbs"
)

// deviceListing is what 'devices' prints.
type deviceListing struct {
	Schema    string               `json:"schema"`
	Providers []opendevice.Listing `json:"providers"`
}

const devicesSchema = "gobw.devices/1"

//go:embed help.txt
var help string

// NewCommand makes 'devices'.
func NewCommand(tool string, out output.Streams) *cobra.Command {
	var format string
	cmd := cmdline.Command(tool, help)
	cmd.Args = cmdline.ArgumentCount(0, 1, "one device at most")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		if format != "table" && format != "json" {
			return exit.With(exit.Usage, fmt.Errorf("--format %q: want table or json", format))
		}
		all, _, err := opendevice.Providers(opendevice.Config{})
		if err != nil {
			return err
		}
		l := deviceListing{devicesSchema, opendevice.List(all)}
		if len(args) == 1 {
			if err := l.keep(args[0]); err != nil {
				return err
			}
		}
		if format == "json" {
			return output.JSON(out, l)
		}
		return l.write(out.Out, len(args) == 1)
	}
	cmd.Flags().StringVar(&format, "format", "table", "print as `FORMAT`: table or json")
	return cmd
}

// keep leaves the device of a name.
func (l *deviceListing) keep(named string) error {
	name, at, err := opendevice.Place(named)
	if err != nil {
		return exit.With(exit.Setup, err)
	}
	elsewhere := func(g verbs.GIDEntry) bool { return len(at) > 0 && !slices.Contains(at, g.GID.Addr()) }
	var known []string
	for i := range l.Providers {
		p := &l.Providers[i]
		p.Devices = slices.DeleteFunc(p.Devices, func(d opendevice.Listed) bool {
			known = append(known, d.Name)
			for i := range d.Ports {
				d.Ports[i].GIDs = slices.DeleteFunc(d.Ports[i].GIDs, elsewhere)
			}
			return d.Name != name
		})
	}
	l.Providers = slices.DeleteFunc(l.Providers, func(p opendevice.Listing) bool { return len(p.Devices) == 0 })
	if len(l.Providers) == 0 {
		return exit.With(exit.Setup, fmt.Errorf("no device %q; there are: %s", name, strings.Join(known, ", ")))
	}
	return nil
}

// write prints the listing for a person: the ports, their addresses, and what was in the way.
func (l deviceListing) write(w io.Writer, whole bool) error { //nolint:revive // what the user asked for
	var ports, gids [][]string
	var notes []string
	for _, p := range l.Providers {
		if p.Error != "" {
			notes = append(notes, p.Name+": "+p.Error)
			if p.Remedy != "" {
				notes = append(notes, "     "+p.Remedy)
			}
		}
		for _, d := range p.Devices {
			if d.Error != "" {
				notes = append(notes, d.Name+": "+d.Error)
			}
			for i := range d.Ports {
				ports = append(ports, portRow(&d, &d.Ports[i]))
				gids = append(gids, gidRows(&d, &d.Ports[i])...)
			}
		}
	}
	var err error
	if len(ports) > 0 {
		err = render.WriteTable(w, []string{"device", "provider", "port", "state", "link", "rate", "MTU", "LID"}, ports)
		fmt.Fprintln(w)
		err = errors.Join(err, render.WriteTable(w, []string{"device", "port", "-x", "GID", "type"}, gids))
	}
	if whole {
		all, wrong := json.MarshalIndent(l.Providers[0].Devices[0], "", "  ")
		notes, err = append(notes, "\n"+string(all)), errors.Join(err, wrong)
	}
	for _, n := range notes {
		_, wrong := fmt.Fprintln(w, n)
		err = errors.Join(err, wrong)
	}
	return err
}

func portRow(d *opendevice.Listed, p *opendevice.ListedPort) []string {
	rate := "none (software)"
	if !d.Info.Software {
		rate = plain.WithUnit(p.RateBitsPerS, plain.BitsPerS)
	}
	lid := "-"
	if p.LID != 0 {
		lid = fmt.Sprint(p.LID)
	}
	return []string{
		d.Name, d.Provider, fmt.Sprint(p.Number), p.State.String(), p.LinkLayer.String(), rate, p.ActiveMTU.String(), lid,
	}
}

// gidRows are the lines of a port's table of addresses.
func gidRows(d *opendevice.Listed, p *opendevice.ListedPort) [][]string {
	if len(p.GIDs) == 0 {
		return [][]string{{d.Name, fmt.Sprint(p.Number), "-", "none", "-"}}
	}
	var rows [][]string
	for _, g := range p.GIDs {
		rows = append(rows,
			[]string{d.Name, fmt.Sprint(p.Number), fmt.Sprint(g.Index), g.GID.Addr().String(), g.Type.String()})
	}
	return rows
}
