package report_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/noncontig"
)

var update = flag.Bool("update", false, "write the schema again") //nolint:gochecknoglobals // a flag of the test

// TestSchemaIsCurrent: the schema is made from the Go types and their comments; -update writes it again.
func TestSchemaIsCurrent(t *testing.T) {
	g := &schemaWriter{comments: fieldComments(t), definitions: map[string]any{}}
	g.of(reflect.TypeFor[report.Document]())
	schema := map[string]any{
		"$schema": "https://json-schema.org/draft/2020-12/schema",
		"$id":     "https://github.com/gobw/gobw/report/schema.json",
		"title":   report.SchemaVersion,
		"description": "The result of one run of gobw or golat. Units are in the names: _ns nanoseconds, " +
			"_bits_per_s decimal bits per second, _bytes bytes. Fields may be added within a version; " +
			"readers ignore those they do not know.",
		"$ref":  "#/$defs/Document",
		"$defs": g.definitions,
	}
	got, err := json.MarshalIndent(schema, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	got = append(got, '\n')
	if *update {
		if err := os.WriteFile("schema.json", got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !bytes.Equal(got, schemaText(t)) {
		t.Error("schema.json is not what the types say: run go test ./report -run Schema -update")
	}
}

type schemaWriter struct {
	comments    map[string]string // "Type.Field" to its comment
	definitions map[string]any
}

func (g *schemaWriter) of(t reflect.Type) map[string]any {
	if t == reflect.TypeFor[time.Time]() {
		return map[string]any{"type": "string", "format": "date-time"}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return g.of(t.Elem())
	case reflect.String:
		return map[string]any{"type": "string"}
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return map[string]any{"type": "integer", "minimum": 0}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return map[string]any{"type": "integer"}
	case reflect.Float32, reflect.Float64:
		return map[string]any{"type": "number"}
	case reflect.Slice, reflect.Array:
		return map[string]any{"type": []string{"array", "null"}, "items": g.of(t.Elem())}
	case reflect.Map:
		return map[string]any{"type": "object", "additionalProperties": g.of(t.Elem())}
	case reflect.Interface:
		return map[string]any{}
	case reflect.Struct:
		g.define(t)
		return map[string]any{"$ref": "#/$defs/" + definition(t)}
	default:
		panic("no schema for " + t.String())
	}
}

func (g *schemaWriter) define(t reflect.Type) {
	if _, ok := g.definitions[definition(t)]; ok {
		return
	}
	d := map[string]any{"type": "object"}
	g.definitions[definition(t)] = d
	properties := map[string]any{}
	required := []string{}
	for _, f := range reflect.VisibleFields(t) {
		if f.Anonymous { // its fields are visible themselves
			continue
		}
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !f.IsExported() || name == "-" {
			continue
		}
		p := g.of(f.Type)
		if c := g.comments[owner(t, f)+"."+f.Name]; c != "" {
			p["description"] = c
		}
		if f.Name == "Schema" {
			p = map[string]any{"const": report.SchemaVersion}
		}
		if f.Name == "Kind" && t.Name() == "Record" {
			p["enum"] = []string{"bandwidth", "latency"}
		}
		properties[name] = p
		if !strings.Contains(options, "omit") {
			required = append(required, name)
		}
	}
	d["properties"] = properties
	if c := g.comments[t.String()]; c != "" {
		d["description"] = c
	}
	if len(required) > 0 {
		slices.Sort(required)
		d["required"] = required
	}
}

// definition is the name of a type in the schema: those of the non-contiguous experiment say so.
func definition(t reflect.Type) string {
	switch {
	case t == reflect.TypeFor[noncontig.Grid]():
		return "Noncontig"
	case strings.HasPrefix(t.String(), "noncontig."):
		return "Noncontig" + t.Name()
	}
	return t.Name()
}

// owner is the type that declares a field, which may be embedded.
func owner(t reflect.Type, f reflect.StructField) string {
	for _, i := range f.Index[:len(f.Index)-1] {
		t = t.Field(i).Type
	}
	return t.String()
}

// fieldComments reads the comments of types and fields from the source.
func fieldComments(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	var files []string
	for _, pattern := range []string{"*.go", "noncontig/*.go", "stats/*.go"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	text := func(groups ...*ast.CommentGroup) string {
		var parts []string
		for _, c := range groups {
			if s := strings.Join(strings.Fields(c.Text()), " "); s != "" && !strings.HasPrefix(s, "nolint") {
				parts = append(parts, s)
			}
		}
		return strings.Join(parts, " ")
	}
	for _, name := range files {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			decl, ok := d.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, s := range decl.Specs {
				spec, ok := s.(*ast.TypeSpec)
				if !ok {
					continue
				}
				name := f.Name.Name + "." + spec.Name.Name
				out[name] = text(decl.Doc)
				body, ok := spec.Type.(*ast.StructType)
				if !ok {
					continue
				}
				for _, field := range body.Fields.List {
					for _, n := range field.Names {
						out[name+"."+n.Name] = text(field.Doc, field.Comment)
					}
				}
			}
		}
	}
	return out
}

// schemaText is the schema that stands beside the types.
func schemaText(t *testing.T) []byte {
	t.Helper()
	b, err := os.ReadFile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func compiledSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	raw, err := jsonschema.UnmarshalJSON(bytes.NewReader(schemaText(t)))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("schema.json", raw); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestDocumentsValidate(t *testing.T) {
	s := compiledSchema(t)
	interrupted := saved("sample")
	interrupted.Complete, interrupted.Failure, interrupted.Records = false, "interrupted", nil
	documents := [][]byte{}
	for _, d := range []*report.Document{saved("sample"), saved("repeated"), interrupted} {
		b, err := report.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		documents = append(documents, b)
	}
	files, err := filepath.Glob("testdata/versions/gobw.result-1*.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		old, err := report.LoadAll(f)
		if err != nil {
			t.Fatal(err)
		}
		b, err := report.Marshal(old[0])
		if err != nil {
			t.Fatal(err)
		}
		documents = append(documents, b)
	}
	for i, b := range documents {
		v, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Validate(v); err != nil {
			t.Errorf("document %d: %v", i, err)
		}
	}
	for _, bad := range []string{
		`{}`,
		strings.Replace(string(documents[0]), `"bandwidth"`, `"speed"`, 1),
		strings.Replace(string(documents[0]), `"schema": "gobw.result/1"`, `"schema": "gobw.result/2"`, 1),
		strings.Replace(string(documents[0]), `"size_bytes": 2`, `"size_bytes": -2`, 1),
		strings.Replace(string(documents[0]), `"started": "2026`, `"started": "yesterday 2026`, 1),
	} {
		v, err := jsonschema.UnmarshalJSON(strings.NewReader(bad))
		if err != nil {
			t.Fatal(err)
		}
		if s.Validate(v) == nil {
			t.Errorf("the schema lets pass: %.80s", bad)
		}
	}
}
