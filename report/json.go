package report

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strings"
)

// Marshal encodes a document with indents; a figure that is not a number is named.
func Marshal(d *Document) ([]byte, error) {
	if d.Schema == "" {
		c := *d
		c.Schema = SchemaVersion
		d = &c
	}
	b, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		if where := notFinite(reflect.ValueOf(d), "document"); where != "" {
			return nil, fmt.Errorf("%s is not a finite number, so the document cannot be written as JSON", where)
		}
		return nil, fmt.Errorf("encode document: %w", err)
	}
	return append(b, '\n'), nil
}

// notFinite finds the first NaN or infinity below v.
func notFinite(v reflect.Value, path string) string {
	switch v.Kind() { //nolint:exhaustive // other kinds hold no floats
	case reflect.Float64:
		if f := v.Float(); math.IsNaN(f) || math.IsInf(f, 0) {
			return path
		}
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			return notFinite(v.Elem(), path)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if !f.IsExported() {
				continue
			}
			tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if s := notFinite(v.Field(i), path+"."+tag); s != "" {
				return s
			}
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			if s := notFinite(v.Index(i), fmt.Sprintf("%s[%d]", path, i)); s != "" {
				return s
			}
		}
	case reflect.Map:
		for _, k := range v.MapKeys() {
			if s := notFinite(v.MapIndex(k), path+"."+k.String()); s != "" {
				return s
			}
		}
	}
	return ""
}
