package text

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/internal/perftest/flags"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/verbs"
)

// Facts are what the header and the address lines need beside the command line.
type Facts struct {
	Device        verbs.DeviceInfo
	Port          verbs.PortInfo
	MTU           verbs.MTU
	GID           *verbs.GIDEntry // nil: none in use
	Inline        int
	Outstanding   int
	PostAPI       verbs.PostAPI
	NUMANode      int // of the measuring CPU; -1: unknown
	Local, Remote []control.Address
	Plan          *plan.Settled // in force
}

// title is the words before "Test".
func title(p *plan.Settled) []string {
	s := p.Spec
	words, v := slices.Clone(p.Row.Perftest.Title), flags.Invocation{Plan: s}
	if s.Bidirectional {
		words = append(words, "Bidirectional")
	}
	for _, f := range v.Lists() {
		if f.Sends {
			words = append(words, f.Label)
		}
	}
	measure := "BW"
	if s.Kind == plan.Latency {
		measure = "Latency"
	}
	if words = append(words, measure); s.Multicast {
		words = append(words, "Multicast")
	}
	return words
}

func either(is bool, yes, no string) string { //nolint:revive // a choice of words
	if is {
		return yes
	}
	return no
}

func onOff(is bool) string { return either(is, "ON", "OFF") }

// line is one fact of the header, which the text and the JSON have alike. What only one of them has, has no label or no key.
type line struct {
	is     bool   // perftest prints it in this test
	label  string // of the text
	key    string // of the JSON; empty: the label's words with underscores between
	value  any
	unit   string // behind the value in the text
	beside bool   // in the text it stands on the line of the one before
	asText string // all of the text, where that is not "label : value"
}

const noKey = "-"

// text is the line in the text, with the line break before it.
func (x *line) text() string {
	switch {
	case !x.is || x.label == "" && x.asText == "":
		return ""
	case x.asText != "" && x.beside:
		return x.asText
	case x.asText != "":
		return "\n " + x.asText
	case x.beside:
		return fmt.Sprintf("\t\t%-15s: %v", x.label, x.value)
	}
	return fmt.Sprintf("\n %-16s: %v%s", x.label, x.value, x.unit)
}

func orZero[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// json is the line in the JSON; empty: it has none.
func (x *line) json() string {
	if !x.is || x.key == noKey {
		return ""
	}
	key := x.key
	if key == "" {
		key = strings.NewReplacer(" ", "_", "-", "_", "*", "", ".", "").Replace(x.label)
	}
	b, _ := json.Marshal(x.value) // words and numbers
	return fmt.Sprintf("%q: %s", key, b)
}

// lines is the header between title and addresses.
func (f *Facts) lines(v *flags.Invocation) []line {
	p, d, row := f.Plan.Spec, f.Plan.Depths(), f.Plan.Row
	tx, rx := f.Plan.Shown()
	bandwidth, modern := p.Kind == plan.Bandwidth, v.Style() == flags.Modern
	channel := fmt.Sprintf("%s_comp%d", f.Device.Name, p.Vector)
	head := []line{
		{is: p.Events, asText: "Test with events. Using " + channel, key: "Test with events", value: "Using_" + channel},
		{is: p.Multicast, asText: "MultiCast runs on UD!", key: "MultiCast_runs", value: "on_UD"},
		{is: true, label: "Dual-port", value: "OFF"},
		{is: true, label: "Device", value: f.Device.Name, beside: true},
		{is: true, label: "Number of qps", value: p.QPs},
		{is: true, label: "Transport type", value: cmp.Or(f.Device.TransportType, "IB"), beside: true},
		{is: true, label: "Connection type", value: p.Transport.String()},
		{is: true, label: "Using SRQ", value: onOff(p.SRQ), beside: true},
		{is: true, label: "PCIe relax order", value: onOff(!f.Plan.Strict())},
		{is: modern, label: "Lock-free", key: noKey, value: "OFF", beside: true},
		{is: true, label: "ibv_wr* API", value: onOff(f.PostAPI == verbs.PostWR)},
		{is: modern, label: "Using Enhanced Reorder      ", key: noKey, value: "OFF", beside: true},
		{is: tx, label: "TX depth", value: d.Tx},
	}
	for _, f := range (&flags.Invocation{Plan: p}).Lists() {
		head = append(head, line{is: true, label: f.Label, value: f.Number})
	}
	return append(head, []line{
		{is: rx, label: "RX depth", value: d.Rx},
		{is: bandwidth, label: "CQ Moderation", value: d.CQMod},
		{is: bandwidth && modern, label: "CQE Poll Batch", key: noKey, value: either(v.AdaptsPolls, "Dynamic", "16")},
		{is: true, label: "Mtu", value: f.MTU.Bytes(), unit: "[B]"},
		{is: true, label: "Link type", value: either(f.Port.LinkLayer == verbs.LinkEthernet, "Ethernet", "IB")},
		{is: f.GID != nil, label: "GID index", value: orZero(f.GID).Index},
		{is: row.Responded, label: "Outstand reads", value: f.Outstanding},
		{is: !row.Responded, label: "Max inline data", value: f.Inline, unit: "[B]"},
		{is: true, asText: "rdma_cm QPs\t : " + onOff(p.RDMACM), key: "rdma_cm_QPs", value: onOff(p.RDMACM)},
		{is: modern, key: "Use_ROCm_memory", value: "OFF"},
		{is: modern, key: "Use_MUSA_memory", value: "OFF"},
		{is: true, label: "Data ex. method", value: either(v.ControlCM, "rdma_cm", "Ethernet")},
		{is: p.TOS != nil, asText: fmt.Sprintf(" \tTOS    : %d", orZero(p.TOS)), key: "TOS", value: orZero(p.TOS), beside: true},
		{is: modern && f.NUMANode >= 0, label: "NUMA node", key: noKey, value: f.NUMANode},
	}...)
}
