// Package output is where results go: streams, formats, files, progress.
package output

import (
	"encoding/json"
)

// JSON prints what is no result as JSON for people and programs.
func JSON(out Streams, v any) error {
	e := json.NewEncoder(out.Out)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
