package doctor

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/gobw/gobw/internal/cli/exit"
	"github.com/gobw/gobw/internal/cli/measure"
	"github.com/gobw/gobw/internal/cli/opendevice"
	"github.com/gobw/gobw/internal/cli/output"
	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/roce"
)

func nic(change func(*opendevice.Listed)) opendevice.Listed {
	d := opendevice.Listed{
		Info: &verbs.DeviceInfo{
			Name: "mlx5_0", Provider: "ibv", NUMANode: -1, PCIAddress: "0000:81:00.0", PCILinkSpeed: "16.0 GT/s PCIe",
			PCILinkWidth: 16,
		},
		Ports: []opendevice.ListedPort{{
			PortInfo: verbs.PortInfo{
				Number: 1, State: verbs.PortActive, LinkLayer: verbs.LinkEthernet, MaxMTU: verbs.MTU4096, ActiveMTU: verbs.MTU4096,
				RateBitsPerS: 200e9, NetInterface: "ens1",
			},
			GIDs: []verbs.GIDEntry{
				{Index: 3, GID: verbs.GID{10: 0xff, 11: 0xff, 12: 192, 13: 0, 14: 2, 15: 1}, Type: verbs.GIDRoCEv2},
			},
		}},
	}
	if change != nil {
		change(&d)
	}
	return d
}

func roce0() opendevice.Listed {
	return opendevice.Listed{
		DeviceName: verbs.DeviceName{Name: "roce0", Provider: "roce"},
		Info:       &verbs.DeviceInfo{Name: "roce0", Software: true, NUMANode: -1},
	}
}

// rxe0 is a device of libibverbs in software.
func rxe0() opendevice.Listed {
	d := nic(func(d *opendevice.Listed) { d.Info.Name, d.Info.Software, d.Info.PCIAddress = "rxe0", true, "" })
	d.Provider = "ibv"
	return d
}

// taken is a system where somebody has the port of RoCE.
func taken(by opendevice.Holder) system {
	return system{Linux: true, CPUs: 8, MemlockBytes: -1, Port4791: &by}
}

func TestExamine(t *testing.T) {
	healthy := system{Linux: true, CPUs: 8, Governor: "performance", MemlockBytes: -1}
	tests := []struct {
		name  string
		end   end
		need  uint64
		check string // "" for clean
		says  []string
	}{
		{"healthy", end{devices: []opendevice.Listed{nic(nil)}, system: healthy}, 1 << 24, "", nil},
		{
			"cable", end{
				devices: []opendevice.Listed{nic(func(d *opendevice.Listed) { d.Ports[0].State = verbs.PortDown })},
				system:  healthy,
			}, 0, "port-state", []string{"DOWN", "cable", "ip link set ens1 up"},
		},
		{
			"no subnet manager", end{
				devices: []opendevice.Listed{nic(func(d *opendevice.Listed) { d.Ports[0].State = verbs.PortInit })},
				system:  healthy,
			}, 0, "port-state", []string{"opensm"},
		},
		{
			"memlock",
			end{devices: []opendevice.Listed{nic(nil)}, system: system{Linux: true, CPUs: 8, MemlockBytes: 65536}},
			1 << 24, "memlock",
			[]string{"16 MiB", "64 KiB", "limits.conf", "LimitMEMLOCK=infinity", "--ulimit memlock=-1"},
		},
		{
			"memlock with the capability", end{
				devices: []opendevice.Listed{nic(nil)},
				system:  system{Linux: true, CPUs: 8, MemlockBytes: 65536, CanLockMemory: true},
			}, 1 << 24, "", nil,
		},
		{
			"narrow slot", end{
				devices: []opendevice.Listed{nic(func(d *opendevice.Listed) { d.Info.PCILinkWidth = 8 })}, system: healthy,
			}, 0, "pcie", []string{"126 Gb/s", "200 Gb/s", "lspci -vv -s 0000:81:00.0"},
		},
		{
			"far NUMA node", end{
				devices: []opendevice.Listed{nic(func(d *opendevice.Listed) { d.Info.NUMANode = 1 })},
				system:  system{Linux: true, CPUs: 8, MemlockBytes: -1, NUMANodes: []int{0, 1}, AffinityNodes: []int{0}},
			}, 0, "numa", []string{"--cpunodebind=1"},
		},
		{
			"empty GID table", end{
				devices: []opendevice.Listed{nic(func(d *opendevice.Listed) { d.Ports[0].GIDs = nil })}, system: healthy,
			}, 0, "gid-table", []string{"empty", "netns"},
		},
		{
			"busy", end{
				devices: []opendevice.Listed{nic(nil)}, system: system{Linux: true, CPUs: 8, MemlockBytes: -1, LoadAverage: 7.4},
			}, 0, "cpu-load", []string{"7.4 threads", "8 CPUs"},
		},
		{
			"one busy CPU of eight", end{
				devices: []opendevice.Listed{nic(nil)}, system: system{Linux: true, CPUs: 8, MemlockBytes: -1, LoadAverage: 1.2},
			}, 0, "", nil,
		},
		{
			"governor", end{
				devices: []opendevice.Listed{nic(nil)},
				system:  system{Linux: true, CPUs: 8, MemlockBytes: -1, Governor: "powersave"},
			}, 0, "cpu-governor", []string{"powersave", "cpupower"},
		},
		{
			"port 4791",
			end{devices: []opendevice.Listed{roce0()}, system: taken(opendevice.Holder{Kernel: true})},
			0,
			"udp-4791",
			[]string{"rdma_rxe", "ip netns add"},
		},
		{
			"port 4791, a plain process", end{
				devices: []opendevice.Listed{roce0()}, system: taken(opendevice.Holder{PID: "7", Command: "python3 x"}),
			}, 0, "udp-4791", []string{"process 7 has it: python3 x", "stop that process"},
		},
		{
			"port 4791, a process that is not seen",
			end{devices: []opendevice.Listed{roce0()}, system: taken(opendevice.Holder{})},
			0, "udp-4791",
			[]string{"ss -lunp 'sport = :4791'"},
		},
		{
			"Soft-RoCE itself, which has the port", end{
				devices: []opendevice.Listed{rxe0()}, named: true, hardware: true, system: taken(opendevice.Holder{Kernel: true}),
			}, 0, "", nil,
		},
		{
			"Soft-RoCE, and roce0 that nobody asked for", end{
				devices: []opendevice.Listed{rxe0(), roce0()}, hardware: true, system: taken(opendevice.Holder{Kernel: true}),
			}, 0, "", nil,
		},
		{
			"loopback", end{
				devices: []opendevice.Listed{nic(nil)}, system: system{Linux: true, CPUs: 8, MemlockBytes: -1, LoopbackDown: true},
			}, 0, "loopback", []string{"ip link set lo up"},
		},
		{
			"quota", end{
				devices: []opendevice.Listed{nic(nil)}, system: system{Linux: true, CPUs: 8, MemlockBytes: -1, CPUQuota: 0.5},
			}, 0, "cpu-quota", []string{"0.5 CPUs", "resources.limits.cpu"},
		},
		{
			"a large quota", end{
				devices: []opendevice.Listed{nic(nil)}, system: system{Linux: true, CPUs: 8, MemlockBytes: -1, CPUQuota: 4},
			}, 0, "", nil,
		},
		{
			"module not loaded",
			end{system: system{Linux: true, CPUs: 8, RDMAHardware: []string{"mlx5_core 0000:81:00.0"}}},
			0, "kernel-modules",
			[]string{"modprobe ib_uverbs"},
		},
		{
			"module of the driver not loaded", end{
				system: system{Linux: true, CPUs: 8, VerbsLoaded: true, RDMAHardware: []string{"mlx5_core 0000:81:00.0"}},
			}, 0, "kernel-modules", []string{"no verbs device", "modprobe mlx5_ib"},
		},
		{
			"hardware, but no library to ask it", end{
				ibvError: "no libibverbs.so.1", system: system{
					Linux: true, CPUs: 8, MemlockBytes: -1, VerbsLoaded: true, RDMAHardware: []string{"mlx5_core 0000:81:00.0"},
				},
			}, 0, "libibverbs", []string{"apt-get install libibverbs1"},
		},
		{
			"a device that does not open", end{
				closed: []opendevice.Listed{
					{DeviceName: verbs.DeviceName{Name: "mlx5_0"}, Error: "open: no permission", Remedy: "look at /dev/infiniband"},
				}, hardware: true, system: healthy,
			}, 0, "device", []string{"no permission", "/dev/infiniband"},
		},
		{
			"iommu", end{
				devices: []opendevice.Listed{nic(nil)},
				system:  system{Linux: true, CPUs: 8, MemlockBytes: -1, IOMMUTranslates: true},
			}, 0, "iommu", []string{"iommu=pt"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := examine(tt.end, tt.need)
			if tt.check == "" {
				if !clean(got) {
					t.Fatalf("got %+v, want nothing to do", got)
				}
				return
			}
			i := slices.IndexFunc(got, func(f finding) bool { return f.Check == tt.check })
			if i < 0 {
				t.Fatalf("got %+v, want a finding %q", got, tt.check)
			}
			text := strings.Join(append([]string{got[i].What, got[i].Why}, got[i].Fix...), "\n")
			for _, s := range tt.says {
				if !strings.Contains(text, s) {
					t.Errorf("finding does not say %q:\n%s", s, text)
				}
			}
		})
	}
}

// TestSmallerMTU: a path that takes less than this end's port is told.
func TestSmallerMTU(t *testing.T) {
	mine := end{devices: []opendevice.Listed{nic(func(d *opendevice.Listed) { d.Ports[0].ActiveMTUBytes = 4096 })}}
	var got, none findings
	got.smallerMTU(mine, report.Environment{Device: "mlx5_0", Port: 1, MTU: 1024}, "alpha")
	if len(got) != 1 || got[0].Check != "mtu-mismatch" || clean(got) ||
		!strings.Contains(got[0].What, "4096 bytes here, 1024 there") {
		t.Errorf("%+v", got)
	}
	if none.smallerMTU(mine, report.Environment{Device: "mlx5_0", Port: 1, MTU: 4096}, "alpha"); len(none) != 0 {
		t.Errorf("equal ends: got %+v, want nothing", none)
	}
}

// TestNamedDeviceIsMissing: who names a device that is not there has a problem, and no message is tried.
func TestNamedDeviceIsMissing(t *testing.T) {
	for _, host := range []*measure.PeerConfig{nil, {Loopback: true}} {
		var said strings.Builder
		device := opendevice.Config{Name: "mlx5_99", Providers: []verbs.Provider{roce.New(roce.Options{})}}
		err := run(t.Context(), output.Streams{Out: &said, Err: &said}, "gobw", device, host, "text")
		if exit.Code(err) != exit.Missed ||
			!strings.HasPrefix(said.String(), `problem: this end: no device "mlx5_99"; there are: roce0`) ||
			!strings.Contains(said.String(), "fix: lspci") || strings.Contains(said.String(), "gobw devices   # then") ||
			strings.Contains(said.String(), "serve") || strings.Count(said.String(), "mlx5_99") != 1 {
			t.Errorf("%v\n%s", err, &said)
		}
	}
}

func TestInspectReadsTheSystem(t *testing.T) {
	root := fstest.MapFS{
		"proc/self/status":              {Data: []byte("CapEff:\t0000000000004000\nCpus_allowed_list:\t0-1\n")},
		"proc/sys/kernel/osrelease":     {Data: []byte("6.1.0\n")},
		"lib/modules/6.1.0/modules.dep": {Data: []byte("kernel/drivers/infiniband/sw/rxe/rdma_rxe.ko: kernel/x.ko\n")},
		"proc/sys/net/core/rmem_max":    {Data: []byte("212992\n")},
		"proc/loadavg":                  {Data: []byte("1.25 0.80 0.40 2/345 6789\n")},
		"proc/net/route":                {Data: []byte("Iface\tDestination\tGateway\neth7\t00000000\t0100000A\n")},

		"sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": {Data: []byte("ondemand\n")},
		"sys/devices/system/node/node0/cpulist":                {Data: []byte("0-3\n")},
		"sys/devices/system/node/node1/cpulist":                {Data: []byte("4-7\n")},
		"sys/bus/pci/drivers/mlx5_core/0000:81:00.0/vendor":    {Data: []byte("0x15b3\n")},
		"sys/class/iommu/dmar0/x":                              {Data: []byte{}},
		"proc/cmdline":                                         {Data: []byte("quiet iommu=pt\n")},
	}
	s := inspect(root)
	if !s.CanLockMemory {
		t.Error("CAP_IPC_LOCK was not seen")
	}
	if !s.SoftRoCE || s.VerbsLoaded {
		t.Errorf("modules: available %v loaded %v", s.SoftRoCE, s.VerbsLoaded)
	}
	if s.ReceiveBufferMax != 212992 || s.LoadAverage != 1.25 || s.DefaultInterface != "eth7" || s.Governor != "ondemand" ||
		s.IOMMUTranslates {
		t.Errorf("got %+v", s)
	}
	if !slices.Equal(s.NUMANodes, []int{0, 1}) || !slices.Equal(s.AffinityNodes, []int{0}) {
		t.Errorf("nodes %v affinity %v, want [0 1] [0]", s.NUMANodes, s.AffinityNodes)
	}
	if !slices.Equal(s.RDMAHardware, []string{"mlx5_core 0000:81:00.0"}) {
		t.Errorf("hardware %v", s.RDMAHardware)
	}
}

func TestPCIeBitsPerS(t *testing.T) {
	for _, tt := range []struct {
		speed string
		lanes int
		want  float64 // Gb/s
	}{{"8.0 GT/s PCIe", 8, 63}, {"5.0 GT/s PCIe", 4, 16}, {"32.0 GT/s PCIe", 16, 504.1}, {"Unknown", 16, 0}} {
		if got := pcieBitsPerS(tt.speed, tt.lanes) / 1e9; got < tt.want-0.1 || got > tt.want+0.1 {
			t.Errorf("%s x%d: got %.1f Gb/s, want %.1f", tt.speed, tt.lanes, got, tt.want)
		}
	}
}

// TestEveryCheckHasAText: why a finding matters, and how it is mended, is in the table of texts.
func TestEveryCheckHasAText(t *testing.T) {
	for _, file := range []string{"checks.go", "path.go", "doctor.go"} {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		found := regexp.MustCompile(`(?:add\(|check, what :?= |check :?= )"([a-z0-9/-]+)"`).FindAllStringSubmatch(
			string(source), -1)
		for _, m := range found {
			if !strings.Contains(texts, "\n\n"+m[1]+"\n") {
				t.Errorf("%s: no text of %q", file, m[1])
			}
		}
		if len(found) == 0 {
			t.Errorf("%s: no checks", file)
		}
	}
}
