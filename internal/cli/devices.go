package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/verbs"
)

// deviceListing is what 'devices' prints.
type deviceListing struct {
	Schema    string            `json:"schema"`
	Providers []providerListing `json:"providers"`
}

// providerListing is one provider's devices, or why there are none.
type providerListing struct {
	Name    string         `json:"name"`
	Error   string         `json:"error,omitempty"`
	Remedy  string         `json:"remedy,omitempty"`
	Devices []listedDevice `json:"devices"`
}

// listedDevice is one device with its ports.
type listedDevice struct {
	verbs.DeviceName
	Error string            `json:"error,omitempty"`
	Info  *verbs.DeviceInfo `json:"info,omitempty"`
	Ports []listedPort      `json:"ports,omitempty"`
}

// listedPort is one port with its tables.
type listedPort struct {
	verbs.PortInfo
	GIDs  []verbs.GIDEntry `json:"gids"`
	PKeys []uint16         `json:"pkeys,omitempty"`
}

const devicesSchema = "gobw.devices/1"

func newDevicesCommand(tool string, out Streams) *cobra.Command {
	var verbose bool
	var format string
	cmd := &cobra.Command{
		Use: "devices", Short: "List RDMA devices, their ports and addresses",
		Long: "List the devices of libibverbs and the embedded software device: state, link\n" +
			"layer, rate, MTU, addresses with their GID index (for -x). -v adds firmware and\nlimits.",
		Example: "  " + tool + " devices\n  " + tool + " devices -v\n  " + tool + " devices --format json",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if format != "table" && format != "json" {
				return usageError{fmt.Errorf("--format %q: want table or json", format)}
			}
			all, _, err := providers(deviceConfig{})
			if err != nil {
				return err
			}
			l := listDevices(all)
			if format == "json" {
				e := json.NewEncoder(out.Out)
				e.SetIndent("", "  ")
				return e.Encode(l)
			}
			return l.write(out.Out, verbose)
		},
	}
	cmd.Flags().BoolVarP(&verbose, "verbose", "v", false, "everything the devices say of themselves")
	cmd.Flags().StringVar(&format, "format", "table", "table or json")
	return cmd
}

func listDevices(all []verbs.Provider) deviceListing {
	l := deviceListing{Schema: devicesSchema, Providers: []providerListing{}}
	for _, p := range all {
		names, err := p.Devices()
		pl := providerListing{Name: p.Name(), Devices: []listedDevice{}}
		if err != nil {
			pl.Error, pl.Remedy = err.Error(), verbs.RemedyOf(err)
		}
		for _, n := range names {
			pl.Devices = append(pl.Devices, listDevice(p, n))
		}
		l.Providers = append(l.Providers, pl)
	}
	return l
}

func listDevice(p verbs.Provider, n verbs.DeviceName) listedDevice {
	out := listedDevice{DeviceName: n}
	d, err := p.Open(n.Name)
	if err != nil {
		out.Error = err.Error()
		return out
	}
	info := d.Info()
	out.Info = &info
	for i := 1; i <= info.Ports; i++ {
		port, err := d.Port(i)
		if err != nil {
			out.Error = errors.Join(errors.New(out.Error), err).Error()
			continue
		}
		lp := listedPort{PortInfo: port, GIDs: []verbs.GIDEntry{}}
		if gids, err := d.GIDs(i); err == nil {
			lp.GIDs = gids
		}
		if keys, err := d.PKeys(i); err == nil {
			lp.PKeys = keys
		}
		out.Ports = append(out.Ports, lp)
	}
	if err := d.Close(); err != nil {
		out.Error = err.Error()
	}
	return out
}

// write prints the listing for a person.
func (l deviceListing) write(w io.Writer, verbose bool) error {
	header := []string{"device", "provider", "port", "state", "link", "rate", "MTU", "GID index: address (type)"}
	var rows [][]string
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
				rows = append(rows, portRows(&d, &d.Ports[i])...)
			}
		}
	}
	if len(rows) > 0 {
		if err := report.WriteTable(w, header, rows); err != nil {
			return err
		}
	}
	for _, n := range notes {
		if _, err := fmt.Fprintln(w, n); err != nil {
			return err
		}
	}
	if !verbose {
		return nil
	}
	return l.writeVerbose(w)
}

func portRows(d *listedDevice, p *listedPort) [][]string {
	rate := "none (software)"
	if !d.Info.Software {
		rate = bandwidthText(p.RateBitsPerS)
	}
	row := []string{d.Name, d.Provider, fmt.Sprint(p.Number), p.State.String(), p.LinkLayer.String(), rate, p.ActiveMTU.String(), ""}
	if len(p.GIDs) == 0 {
		row[7] = "none"
		if p.LID != 0 {
			row[7] = fmt.Sprintf("LID %d", p.LID)
		}
		return [][]string{row}
	}
	var rows [][]string
	for i, g := range p.GIDs {
		if i > 0 {
			row = make([]string, len(row))
		}
		row[7] = fmt.Sprintf("%d: %v (%v)", g.Index, g.GID.Addr(), g.Type)
		rows = append(rows, row)
	}
	return rows
}

// writeVerbose prints every fact as a name and a value.
func (l deviceListing) writeVerbose(w io.Writer) error {
	for _, p := range l.Providers {
		for _, d := range p.Devices {
			if d.Info == nil {
				continue
			}
			if _, err := fmt.Fprintf(w, "\n%s\n", d.Name); err != nil {
				return err
			}
			if err := writeFacts(w, "  ", d.Info); err != nil {
				return err
			}
			for i := range d.Ports {
				if _, err := fmt.Fprintf(w, "  port %d\n", d.Ports[i].Number); err != nil {
					return err
				}
				if err := writeFacts(w, "    ", &d.Ports[i].PortInfo); err != nil {
					return err
				}
				if len(d.Ports[i].PKeys) > 0 {
					if _, err := fmt.Fprintf(w, "    %-24s %#04x\n", "pkeys", d.Ports[i].PKeys); err != nil {
						return err
					}
				}
			}
		}
	}
	return nil
}

// writeFacts prints the JSON fields of v, nested ones with their parent's name before.
func writeFacts(w io.Writer, indent string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	d := json.NewDecoder(strings.NewReader(string(b)))
	d.UseNumber()
	var m map[string]any
	if err := d.Decode(&m); err != nil {
		return err
	}
	var lines []string
	for k, x := range m {
		if nested, is := x.(map[string]any); is {
			for kk, xx := range nested {
				lines = append(lines, fmt.Sprintf("%s%-24s %v", indent, kk, xx))
			}
			continue
		}
		if n, is := x.(json.Number); is && strings.HasSuffix(k, "_guid") {
			if g, err := parseUint(n.String()); err == nil {
				x = fmt.Sprintf("%04x:%04x:%04x:%04x", g>>48, g>>32&0xffff, g>>16&0xffff, g&0xffff)
			}
		}
		lines = append(lines, fmt.Sprintf("%s%-24s %v", indent, k, x))
	}
	slices.Sort(lines)
	for _, line := range lines {
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
	return nil
}
