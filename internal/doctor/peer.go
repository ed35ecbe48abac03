package doctor

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
)

// maxPeerBytes bounds what a peer says of itself: hundreds of devices fit.
const maxPeerBytes = 1 << 20

// ParsePeer reads what the peer says of itself. Its words end up beside commands that a person copies: names are names,
// sentences are quoted, and its remedies are left out, for [Examine] has its own.
func ParsePeer(text []byte) (End, error) {
	if len(text) > maxPeerBytes {
		return End{}, fmt.Errorf("what the peer says of itself: %d bytes, the limit is %d", len(text), maxPeerBytes)
	}
	var tree any
	if err := json.Unmarshal(text, &tree); err != nil {
		return End{}, fmt.Errorf("what the peer says of itself: %w", err)
	}
	text, err := json.Marshal(harmless("", tree))
	var end End
	if err = errors.Join(err, json.Unmarshal(text, &end)); err != nil {
		return End{}, fmt.Errorf("what the peer says of itself: %w", err)
	}
	end.Name, end.IBVRemedy = "peer", ""
	return end, nil
}

// name is what a device, an interface, a file or a PCI function may be called.
var name = regexp.MustCompile(`^[A-Za-z0-9_.:@/+-]{0,128}$`)

// words are names with single spaces between them, as in "RoCE v2" and "16.0 GT/s PCIe".
var words = regexp.MustCompile(`^[A-Za-z0-9_.:@/+-]{1,64}( [A-Za-z0-9_.:@/+()-]{1,64}){0,5}$`)

// isWords tells the fields whose values are several words and never become part of a command.
func isWords(field string) bool {
	return slices.Contains([]string{"type", "pci_link_speed", "rate", "physical_state", "firmware"}, field)
}

// isSentence tells the fields that hold text for a person.
func isSentence(field string) bool {
	return slices.Contains([]string{"ibv_error", "port_4791", "label", "fabric", "firmware"}, field)
}

// harmless rewrites the strings of a decoded JSON text.
func harmless(field string, v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, x := range v {
			if name.MatchString(k) {
				out[k] = harmless(k, x)
			}
		}
		return out
	case []any:
		for i := range v {
			v[i] = harmless(field, v[i])
		}
		return v
	case string:
		switch {
		case name.MatchString(v), isWords(field) && words.MatchString(v):
			return v
		case isSentence(field):
			return strconv.Quote(v[:min(len(v), 500)])
		default:
			return "?"
		}
	default:
		return v
	}
}
