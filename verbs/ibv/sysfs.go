//go:build linux && cgo

package ibv

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/gobw/gobw/verbs"
)

// sysfsDevice reads what the kernel tells of a device under /sys/class/infiniband. What is not there reads as empty.
type sysfsDevice struct {
	root string // "/sys"
	name string
}

// sysfsRoot is where the kernel's files lie, from the path that libibverbs tells of a device.
func sysfsRoot(path, name string) string {
	if root, ok := strings.CutSuffix(path, (sysfsDevice{name: name}).dir()); ok && filepath.IsAbs(root) {
		return root
	}
	return "/sys"
}

func (s sysfsDevice) dir() string { return filepath.Join(s.root, "/class", "infiniband", s.name) }

func (s sysfsDevice) port(n int) string { return filepath.Join(s.dir(), "ports", strconv.Itoa(n)) }

// whyClosed is the reason why libibverbs cannot open a device. It answers ENOENT also where this user may not open the
// device's file.
func whyClosed(sysfs, name string, err error, access func(file string) error) error {
	all, _ := filepath.Glob(filepath.Join(sysfs, "class", "infiniband_verbs", "uverbs*"))
	for _, dir := range all {
		if read(filepath.Join(dir, "ibdev")) != name {
			continue
		}
		if denied := access(filepath.Join("/dev/infiniband", filepath.Base(dir))); errors.Is(denied, fs.ErrPermission) {
			return denied
		}
	}
	return err
}

func read(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// describe fills in the driver, the place on the bus, and whether there is hardware at all.
func (s sysfsDevice) describe(i *verbs.DeviceInfo) {
	if fw := read(filepath.Join(s.dir(), "fw_ver")); fw != "" {
		i.Firmware = fw
	}
	i.NetInterface = s.netInterface(1)
	parent, err := filepath.EvalSymlinks(filepath.Join(s.dir(), "device"))
	if err != nil {
		if _, err := os.Stat(s.dir()); err == nil { // the kernel knows it and there is no device behind it: rxe, siw
			i.Software = true
			i.Driver = s.softwareDriver()
		}
		return
	}
	if n, err := strconv.Atoi(read(filepath.Join(parent, "numa_node"))); err == nil {
		i.NUMANode = n
	}
	if driver, err := os.Readlink(filepath.Join(parent, "driver")); err == nil {
		i.Driver = filepath.Base(driver)
	}
	i.PCIAddress = filepath.Base(parent)
	i.PCILinkSpeed = read(filepath.Join(parent, "current_link_speed"))
	i.PCILinkWidth, _ = strconv.Atoi(read(filepath.Join(parent, "current_link_width")))
}

// softwareDriver guesses the driver of a device that has no parent.
func (s sysfsDevice) softwareDriver() string {
	if strings.HasPrefix(read(filepath.Join(s.dir(), "node_type")), "4:") { // RNIC: iWARP
		return "siw"
	}
	return "rdma_rxe"
}

// rate is the port's rate as the driver words it ("100 Gb/sec (4X EDR)"), and in bits/s.
func (s sysfsDevice) rate(port int) (string, float64) {
	text := read(filepath.Join(s.port(port), "rate"))
	number, rest, ok := strings.Cut(text, " ")
	gbits, err := strconv.ParseFloat(number, 64)
	if !ok || err != nil || !strings.HasPrefix(rest, "Gb/sec") {
		return "", 0
	}
	return text, gbits * 1e9
}

// netInterface is the network interface under a RoCE or iWARP port.
func (s sysfsDevice) netInterface(port int) string {
	for i := range 16 {
		if n := read(filepath.Join(s.port(port), "gid_attrs", "ndevs", strconv.Itoa(i))); n != "" {
			return n
		}
	}
	return ""
}

// gids reads a GID table of up to n entries.
func (s sysfsDevice) gids(port, n int) []verbs.GIDEntry {
	var entries []verbs.GIDEntry
	for i := range n {
		index := strconv.Itoa(i)
		var g verbs.GID
		if err := g.UnmarshalText([]byte(read(filepath.Join(s.port(port), "gids", index)))); err != nil || g.IsZero() {
			continue
		}
		e := verbs.GIDEntry{Index: i, GID: g, NetInterface: read(filepath.Join(s.port(port), "gid_attrs", "ndevs", index))}
		switch read(filepath.Join(s.port(port), "gid_attrs", "types", index)) {
		case "RoCE v2":
			e.Type = verbs.GIDRoCEv2
		case "IB/RoCE v1":
			e.Type = verbs.GIDInfiniBand
			if e.NetInterface != "" || read(filepath.Join(s.port(port), "link_layer")) == "Ethernet" {
				e.Type = verbs.GIDRoCEv1
			}
		default: // an empty line of the table reads as EINVAL
			continue
		}
		entries = append(entries, e)
	}
	return entries
}

// counters reads hw_counters and counters; where both have a name, the driver's own (hw_counters) stands.
func (s sysfsDevice) counters(port int) map[string]uint64 {
	all := make(map[string]uint64)
	for _, dir := range []string{
		filepath.Join(s.port(port), "counters"), filepath.Join(s.port(port), "hw_counters"),
		filepath.Join(s.dir(), "hw_counters"),
	} {
		files, _ := os.ReadDir(dir)
		for _, f := range files {
			if v, err := strconv.ParseUint(read(filepath.Join(dir, f.Name())), 10, 64); err == nil && f.Name() != "lifespan" {
				all[f.Name()] = v
			}
		}
	}
	return all
}

func interfaceName(index int) string {
	if index == 0 {
		return ""
	}
	i, err := net.InterfaceByIndex(index)
	if err != nil {
		return ""
	}
	return i.Name
}

// scopeOf is the number of an IPv6 zone, 0 for none.
func scopeOf(zone string) uint32 {
	if zone == "" {
		return 0
	}
	if i, err := net.InterfaceByName(zone); err == nil {
		return uint32(i.Index)
	}
	n, _ := strconv.ParseUint(zone, 10, 32) // a number, or unknown: the kernel refuses the address
	return uint32(n)
}

// physicalState names a port's physical state (IBTA 14.2.5.6).
func physicalState(s int) string {
	names := [...]string{
		1: "SLEEP", 2: "POLLING", 3: "DISABLED", 4: "PORT_CONFIGURATION_TRAINING", 5: "LINK_UP", 6: "LINK_ERROR_RECOVERY",
		7: "PHY_TEST",
	}
	if s < len(names) {
		return names[s]
	}
	return strconv.Itoa(s)
}
