package fabric

import (
	"errors"
	"fmt"
	"io"
	"strings"
)

// leafOfAddress is the leaf in a SLURM_TOPOLOGY_ADDR such as "spine.leaf2.node5": all before the host. It is empty where
// the cluster names no switches.
func leafOfAddress(address string) string {
	i := strings.LastIndexByte(address, '.')
	if i < 0 {
		return ""
	}
	return address[:i]
}

// ReadTopology reads the leaf of each host from Slurm's topology.conf ("SwitchName=leaf1 Nodes=node[1-3]") or from lines
// "HOST LEAF". "#" begins a comment.
func ReadTopology(r io.Reader) (map[string]string, error) {
	leaf := map[string]string{}
	if err := readLines(r, func(text string) error { return readLine(leaf, text) }); err != nil {
		return nil, err
	}
	if len(leaf) == 0 {
		return nil, errors.New("no host: want \"SwitchName=LEAF Nodes=HOSTS\" or \"HOST LEAF\"")
	}
	return leaf, nil
}

func readLine(leaf map[string]string, text string) error {
	fields := strings.Fields(text)
	if !strings.Contains(text, "=") {
		if len(fields) != 2 {
			return fmt.Errorf("%d words: want \"HOST LEAF\"", len(fields))
		}
		return noteLeaf(leaf, []string{fields[0]}, fields[1])
	}
	var name, nodes string
	for _, f := range fields {
		key, value, _ := strings.Cut(f, "=")
		switch strings.ToLower(key) {
		case "switchname":
			name = value
		case "nodes":
			nodes = value
		}
	}
	if name == "" {
		return fmt.Errorf("%.60q: no SwitchName", text)
	}
	if nodes == "" { // a switch of switches
		return nil
	}
	hosts, err := ExpandHosts(nodes)
	if err != nil {
		return err
	}
	return noteLeaf(leaf, hosts, name)
}

func noteLeaf(leaf map[string]string, hosts []string, name string) error {
	for _, h := range hosts {
		if before, known := leaf[h]; known && before != name {
			return fmt.Errorf("host %s hangs on %s and on %s", h, before, name)
		}
		leaf[h] = name
	}
	return nil
}

// numberLeaves gives each leaf a number in the order of first appearance, and the names by number. Hosts without a leaf share
// number 0 and the name "" where all lack one; where only some do, each of those is a leaf of its own.
func numberLeaves(leaf []string) (numbers []int, names []string) {
	known := map[string]int{}
	any := false
	for _, l := range leaf {
		any = any || l != ""
	}
	numbers = make([]int, len(leaf))
	for i, l := range leaf {
		n, seen := known[l]
		if !seen || l == "" && any {
			n = len(names)
			names = append(names, l)
			known[l] = n
		}
		numbers[i] = n
	}
	return numbers, names
}
