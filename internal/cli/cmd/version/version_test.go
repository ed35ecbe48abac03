package version

import (
	"encoding/json"
	"runtime/debug"
	"strings"
	"testing"
)

func TestRevisionText(t *testing.T) {
	for _, tt := range []struct {
		info *debug.BuildInfo
		want string
	}{
		{nil, "revision unknown (Go did not record it: see -buildvcs in 'go help build')"},
		{
			&debug.BuildInfo{Settings: []debug.BuildSetting{{Key: "vcs", Value: "git"}}},
			"revision unknown (Go did not record it: see -buildvcs in 'go help build')",
		},
		{
			&debug.BuildInfo{Settings: []debug.BuildSetting{
				{Key: "vcs.revision", Value: "207a70aedd35"},
				{Key: "vcs.time", Value: "2026-11-21T10:27:06Z"},
				{Key: "vcs.modified", Value: "true"},
			}},
			"revision 207a70aedd35 of 2026-11-21T10:27:06Z, with changes that are not committed",
		},
		{
			&debug.BuildInfo{
				Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "207a70aedd35"}, {Key: "vcs.modified", Value: "false"}},
			},
			"revision 207a70aedd35",
		},
	} {
		if got := describe("gobw", tt.info).revision(); got != tt.want {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
}

func TestDescribe(t *testing.T) {
	info := &debug.BuildInfo{Settings: []debug.BuildSetting{
		{Key: "vcs.revision", Value: "abc"},
		{Key: "vcs.time", Value: "2026-01-02T03:04:05Z"},
		{Key: "vcs.modified", Value: "true"},
		{Key: "CGO_ENABLED", Value: "1"},
	}}
	var out strings.Builder
	if err := json.NewEncoder(&out).Encode(describe("golat", info)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"program":"golat"`, `"revision":"abc"`, `"time":"2026-01-02T03:04:05Z"`, `"modified":true`, `"cgo":true`,
		`"version":"`,
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %s in %s", want, out.String())
		}
	}
}
