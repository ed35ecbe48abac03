package doctor

import (
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/gobw/gobw/verbs"
)

// TestRails: on a tree of sysfs as the kernel makes it, devices below one root port and interfaces in one bond are named, and
// no others: of those below other root ports, on no PCI bus, or alone in a bond nothing is said.
func TestRails(t *testing.T) {
	link := func(to string) *fstest.MapFile { return &fstest.MapFile{Mode: fs.ModeSymlink, Data: []byte(to)} }
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	root := fstest.MapFS{
		"sys/class/infiniband/mlx5_0":                          link("../../devices/pci0000:80/0000:80:01.0/0000:81:00.0/infiniband/mlx5_0"),
		"sys/class/infiniband/mlx5_1":                          link("../../devices/pci0000:80/0000:80:01.0/0000:81:00.1/infiniband/mlx5_1"),
		"sys/class/infiniband/mlx5_2":                          link("../../devices/pci0000:80/0000:80:03.0/0000:82:00.0/0000:83:01.0/0000:84:00.0/infiniband/mlx5_2"),
		"sys/class/infiniband/rxe0":                            link("../../devices/virtual/infiniband/rxe0"),
		"sys/class/infiniband/odd":                             link("../../devices/pci0000:80"),
		"sys/class/infiniband/file":                            file("no link"),
		"sys/bus/pci/devices/0000:80:01.0/current_link_speed":  file("8.0 GT/s PCIe\n"),
		"sys/bus/pci/devices/0000:80:01.0/current_link_width":  file("16\n"),
		"sys/class/net/bond0/bonding/slaves":                   file("ens1f1 ens2\n"),
		"sys/class/net/bond1/bonding/slaves":                   file("ens3\n"),
		"sys/class/net/bond2/bonding/slaves":                   file("\n"),
		"sys/class/net/ens1f1/address":                         file("02:00:00:00:00:01\n"),
		"sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": file("performance\n"),
	}
	named := func(name, netdev string) Device {
		return nic(func(d *Device) { d.Info.Name, d.Ports[0].NetInterface = name, netdev })
	}
	end := End{Name: "this end", System: Inspect(root), Devices: []Device{
		named("mlx5_0", "ens1f0"), named("mlx5_1", "ens1f1"), named("mlx5_2", "ens2"), named("rxe0", "ens3"),
		{Info: verbs.DeviceInfo{Name: "roce0", Software: true}, Ports: []verbs.PortInfo{{Number: 1}}},
	}}
	got := rails(end)
	if len(got) != 2 {
		t.Fatalf("%d findings, want two: %+v", len(got), got)
	}
	for i, want := range [][]string{
		{"shared-slot", "this end: mlx5_0, mlx5_1", "root port 0000:80:01.0", "carries 126 Gb/s", "make 400 Gb/s together", "-d mlx5_0,mlx5_1"},
		{"shared-bond", "this end: mlx5_1, mlx5_2", "the bond bond0", "-d mlx5_1,mlx5_2"},
	} {
		f := got[i]
		text := strings.Join(append([]string{f.Check, f.Where, f.What, f.Why}, f.Fix...), "\n")
		for _, part := range want {
			if !strings.Contains(text, part) {
				t.Errorf("want %q in\n%s", part, text)
			}
		}
		if f.Severity != Note {
			t.Errorf("%s is a %s: a test on one of them suffers nothing", f.Check, f.Severity)
		}
	}
	if got := rails(End{Devices: end.Devices, System: Inspect(fstest.MapFS{})}); len(got) != 0 {
		t.Errorf("without sysfs: %+v", got)
	}
}
