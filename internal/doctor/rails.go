package doctor

import (
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Slot is the way of an RDMA device to the processor: the root port below which it is, and what the link there can do.
type Slot struct {
	RootPort string `json:"root_port"` // its PCI address
	Speed    string `json:"speed,omitempty"`
	Width    int    `json:"width,omitempty"`
}

// slots finds the root port of each RDMA device that is on a PCI bus. sysfs links the device to its place in the tree, as in
// ../../devices/pci0000:80/0000:80:01.0/0000:81:00.0/infiniband/mlx5_0 (Documentation/ABI/stable/sysfs-class-infiniband).
func slots(root fs.FS) map[string]Slot {
	out := map[string]Slot{}
	entries, err := fs.ReadDir(root, "sys/class/infiniband")
	if err != nil {
		return nil
	}
	for _, e := range entries {
		link, err := fs.ReadLink(root, "sys/class/infiniband/"+e.Name())
		if err != nil {
			continue
		}
		_, tree, found := strings.Cut(link, "/devices/pci")
		way := strings.Split(tree, "/") // the bus, the root port, perhaps switches, the function, "infiniband", the name
		if !found || len(way) < 5 {
			continue // not on a PCI bus, or a part of the root complex
		}
		at := path.Join("sys/bus/pci/devices", way[1])
		s := Slot{RootPort: way[1], Speed: firstLine(root, at+"/current_link_speed")}
		s.Width, _ = strconv.Atoi(firstLine(root, at+"/current_link_width"))
		out[e.Name()] = s
	}
	return out
}

// bonds tells of each network interface that is in a bond which that is (Documentation/networking/bonding.rst).
func bonds(root fs.FS) map[string]string {
	out := map[string]string{}
	entries, err := fs.ReadDir(root, "sys/class/net")
	if err != nil {
		return nil
	}
	for _, e := range entries {
		for member := range strings.FieldsSeq(firstLine(root, "sys/class/net/"+e.Name()+"/bonding/slaves")) {
			out[member] = e.Name()
		}
	}
	return out
}

// rails tells which devices are no rails of their own beside each other.
func rails(e End) []Finding {
	bySlot, byBond := map[Slot][]Device{}, map[string][]Device{}
	for _, d := range e.Devices {
		if s, on := e.System.Slots[d.Info.Name]; on {
			bySlot[s] = append(bySlot[s], d)
		}
		in := map[string]bool{}
		for _, p := range d.Ports {
			if bond, is := e.System.Bonds[p.NetInterface]; is && !in[bond] {
				in[bond] = true
				byBond[bond] = append(byBond[bond], d)
			}
		}
	}
	var all []Finding
	for _, s := range slices.SortedFunc(maps.Keys(bySlot), func(a, b Slot) int { return strings.Compare(a.RootPort, b.RootPort) }) {
		if shared := bySlot[s]; len(shared) > 1 {
			all = append(all, sharedSlot(e.Name, s, shared))
		}
	}
	for _, bond := range slices.Sorted(maps.Keys(byBond)) {
		if shared := byBond[bond]; len(shared) > 1 {
			all = append(all, Finding{
				"shared-bond", Note, e.Name + ": " + deviceNames(shared, ", "), "their interfaces are in the bond " + bond,
				"the bond, not the test, may choose which of them carries a packet: as rails (-d " + deviceNames(shared, ",") + ") they need not be apart",
				[]string{"cat /proc/net/bonding/" + bond + "   # its mode and its hash policy"},
			})
		}
	}
	return all
}

func sharedSlot(end string, s Slot, shared []Device) Finding {
	need := 0.0
	for _, d := range shared {
		for _, p := range d.Ports {
			need += p.RateBitsPerS
		}
	}
	what := "they share the PCIe slot of root port " + s.RootPort
	if carries := PCIeBitsPerS(s.Speed, s.Width); carries > 0 && need > 0 {
		what += fmt.Sprintf(", which carries %.0f Gb/s; their ports make %.0f Gb/s together", carries/1e9, need/1e9)
	}
	return Finding{
		"shared-slot", Note, end + ": " + deviceNames(shared, ", "), what,
		"as rails (-d " + deviceNames(shared, ",") + ") they have one slot's bandwidth between them",
		[]string{"lspci -tv   # devices below other root ports do not share it"},
	}
}

func deviceNames(devices []Device, separator string) string {
	var out []string
	for _, d := range devices {
		out = append(out, d.Info.Name)
	}
	return strings.Join(out, separator)
}
