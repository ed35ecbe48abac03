package report

import (
	_ "embed"
)

//go:embed schema.json
var schemaText string

// Schema is the JSON Schema of a [Document] of [SchemaVersion].
func Schema() string { return schemaText }
