//go:build linux && cgo

package ibv

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/gobw/gobw/verbs"
)

func TestLibraryMissing(t *testing.T) {
	p := New()
	p.lib.name = "libibverbs-that-is-not-there.so.1"
	_, err := p.Devices()
	if err == nil {
		t.Fatal("no error without a library")
	}
	if !strings.Contains(err.Error(), p.lib.name) || !strings.Contains(verbs.RemedyOf(err), "install") {
		t.Errorf("error %q, remedy %q: want the library's name and how to install it", err, verbs.RemedyOf(err))
	}
	if _, again := p.Open("mlx5_0"); !errors.Is(again, err) {
		t.Errorf("second answer %v, want the first: %v", again, err)
	}
}

func TestLibraryIsAnother(t *testing.T) {
	p := New()
	p.lib.name = "libc.so.6"
	_, err := p.Library()
	if err == nil || !strings.Contains(err.Error(), "ibv_open_device@IBVERBS_1.1") {
		t.Errorf("error %v: want the symbols that are missing", err)
	}
}

// installed opens the machine's own libibverbs, or skips.
func installed(t *testing.T) *Provider {
	t.Helper()
	p := New()
	if _, err := p.Library(); err != nil {
		t.Skip(err)
	}
	return p
}

func TestInstalledLibrary(t *testing.T) {
	p := installed(t)
	l, err := p.Library()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(l.Path, "libibverbs") || !strings.HasPrefix(l.Version, "1") {
		t.Errorf("library %+v: want a path and a version", l)
	}
	names, err := p.Devices() // none on most machines, and that is no error
	if err != nil {
		t.Errorf("devices: %v", err)
	}
	for _, n := range names {
		if n.Provider != "ibv" || n.Name == "" {
			t.Errorf("device %+v: want a name and the provider's", n)
		}
	}
	_, err = p.Open("no_such_device")
	if err == nil || verbs.RemedyOf(err) == "" || !strings.Contains(err.Error(), "no such device") {
		t.Errorf("open: error %v, remedy %q", err, verbs.RemedyOf(err))
	}
}

func TestErrnoMeanings(t *testing.T) {
	for _, errno := range []syscall.Errno{
		syscall.EPERM, syscall.EACCES, syscall.ENOMEM, syscall.ENODEV, syscall.EINVAL, syscall.ETIMEDOUT, syscall.EAGAIN,
		syscall.EBUSY, syscall.EOPNOTSUPP, syscall.ENETUNREACH, syscall.EMFILE, syscall.EFAULT, syscall.EIO, syscall.ENOENT,
	} {
		err := explain(&verbs.Error{Verb: "open device", Device: "mlx5_0", Err: errno}, 0)
		if !errors.Is(err, errno) || verbs.RemedyOf(err) == "" || !strings.Contains(err.Error(), "(") {
			t.Errorf("%v: error %q, remedy %q: want the errno, its meaning and a remedy", errno, err, verbs.RemedyOf(err))
		}
	}
	var lim syscall.Rlimit
	if err := syscall.Getrlimit(8, &lim); err != nil {
		t.Fatal(err)
	}
	err := explain(&verbs.Error{Verb: "register memory", Err: syscall.ENOMEM}, 123456)
	if !strings.Contains(err.Error(), "123456 bytes") {
		t.Errorf("%q: want the bytes wanted", err)
	}
	if lim.Cur != math.MaxUint64 && !strings.Contains(verbs.RemedyOf(err), "ulimit -l unlimited") {
		t.Errorf("remedy %q: want the line that raises the limit", verbs.RemedyOf(err))
	}
}

// TestSysfs reads a tree like that of a ConnectX-6 on Ethernet and of Soft-RoCE.
func TestSysfs(t *testing.T) {
	root := t.TempDir()
	for file, text := range map[string]string{
		"devices/pci/0000:3b:00.0/numa_node":                          "1\n",
		"devices/pci/0000:3b:00.0/current_link_speed":                 "16.0 GT/s PCIe\n",
		"devices/pci/0000:3b:00.0/current_link_width":                 "16\n",
		"bus/pci/drivers/mlx5_core/bind":                              "",
		"class/infiniband/mlx5_0/fw_ver":                              "20.31.1014\n",
		"class/infiniband/mlx5_0/ports/1/rate":                        "100 Gb/sec (4X EDR)\n",
		"class/infiniband/mlx5_0/ports/1/link_layer":                  "Ethernet\n",
		"class/infiniband/mlx5_0/ports/1/gids/0":                      "fe80:0000:0000:0000:0e42:a1ff:fe00:0001\n",
		"class/infiniband/mlx5_0/ports/1/gids/1":                      "0000:0000:0000:0000:0000:ffff:0a00:0001\n",
		"class/infiniband/mlx5_0/ports/1/gids/2":                      "0000:0000:0000:0000:0000:0000:0000:0000\n",
		"class/infiniband/mlx5_0/ports/1/gid_attrs/types/0":           "IB/RoCE v1\n",
		"class/infiniband/mlx5_0/ports/1/gid_attrs/types/1":           "RoCE v2\n",
		"class/infiniband/mlx5_0/ports/1/gid_attrs/ndevs/0":           "eth4\n",
		"class/infiniband/mlx5_0/ports/1/gid_attrs/ndevs/1":           "eth4\n",
		"class/infiniband/mlx5_0/ports/1/counters/port_rcv_data":      "77\n",
		"class/infiniband/mlx5_0/ports/1/hw_counters/out_of_sequence": "3\n",
		"class/infiniband/mlx5_0/ports/1/hw_counters/lifespan":        "10\n",
		"class/infiniband/rxe0/ports/1/rate":                          "2.5 Gb/sec (1X SDR)\n",
		"class/infiniband/rxe0/node_type":                             "1: CA\n",
	} {
		path := filepath.Join(root, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{
		"class/infiniband/mlx5_0/device":  "devices/pci/0000:3b:00.0",
		"devices/pci/0000:3b:00.0/driver": "bus/pci/drivers/mlx5_core",
	} {
		if err := os.Symlink(filepath.Join(root, to), filepath.Join(root, link)); err != nil {
			t.Fatal(err)
		}
	}

	var got verbs.DeviceInfo
	nic := sysfsDevice{root: root, name: "mlx5_0"}
	nic.describe(&got)
	want := verbs.DeviceInfo{
		Firmware: "20.31.1014", NUMANode: 1, Driver: "mlx5_core", PCIAddress: "0000:3b:00.0", PCILinkSpeed: "16.0 GT/s PCIe",
		PCILinkWidth: 16, NetInterface: "eth4",
	}
	if got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if text, bits := nic.rate(1); text != "100 Gb/sec (4X EDR)" || bits != 100e9 {
		t.Errorf("rate %q %g", text, bits)
	}
	gids := nic.gids(1, 8)
	if len(gids) != 2 || gids[0].Type != verbs.GIDRoCEv1 || gids[1].Type != verbs.GIDRoCEv2 ||
		gids[1].GID.Addr().String() != "10.0.0.1" {
		t.Errorf("GIDs %+v", gids)
	}
	if c := nic.counters(1); len(c) != 2 || c["port_rcv_data"] != 77 || c["out_of_sequence"] != 3 {
		t.Errorf("counters %v", c)
	}

	var rxe verbs.DeviceInfo
	sysfsDevice{root: root, name: "rxe0"}.describe(&rxe)
	if !rxe.Software || rxe.Driver != "rdma_rxe" {
		t.Errorf("rxe0: %+v: want a software device of rdma_rxe", rxe)
	}
}
