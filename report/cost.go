package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// A file of results may take costPerByte times its size and costFree more. Without a limit, a few bytes of JSON make a
// struct of a kilobyte.
const (
	costPerByte = 16
	costFree    = 64 << 20
)

// checkCost refuses a text whose values would take too much memory. First it counts every value as the largest struct;
// if that is too much, it weighs each value.
func checkCost(b []byte, v any) error {
	most := costPerByte*len(b) + costFree
	t := reflect.TypeOf(v)
	if values := bytes.Count(b, []byte(",")) + 1; values*elementCost*largest(t, nil)+8*len(b) <= most {
		return nil
	}
	w := weigher{dec: json.NewDecoder(bytes.NewReader(b)), left: most, fields: map[reflect.Type]map[string]reflect.Type{}}
	if w.value(t, 0); w.left < 0 {
		return fmt.Errorf("its lists would take more than %d MiB of memory, and the file has %d KiB", most>>20, len(b)>>10)
	}
	return nil
}

// elementCost is how many times its size an element of a list takes while the list grows.
const elementCost = 2

// largest is the size of the largest struct that a type holds.
func largest(t reflect.Type, seen []reflect.Type) (size int) {
	if slices.Contains(seen, t) {
		return 0
	}
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		return max(int(t.Size()), largest(t.Elem(), append(seen, t)))
	case reflect.Struct:
		size = int(t.Size())
		for i := range t.NumField() {
			size = max(size, largest(t.Field(i).Type, append(seen, t)))
		}
	default:
	}
	return size
}

// weigher adds up what the values of a text take.
type weigher struct {
	dec    *json.Decoder
	left   int
	fields map[reflect.Type]map[string]reflect.Type
}

// deepest is the depth from which on encoding/json refuses a text.
const deepest = 10_000

// value weighs the next value, which will have the type t; nil: it is not kept. The decoder reports what is no JSON.
func (w *weigher) value(t reflect.Type, depth int) {
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
		w.left -= int(t.Size())
	}
	token, err := w.dec.Token()
	opens, is := token.(json.Delim)
	if err != nil || depth > deepest {
		w.left = min(w.left, 0) // nothing is left to be weighed
		return
	}
	if !is {
		return
	}
	var element reflect.Type
	if t != nil && (t.Kind() == reflect.Slice || t.Kind() == reflect.Array || t.Kind() == reflect.Map) {
		element = t.Elem()
	}
	for w.left > 0 && w.dec.More() {
		of := element
		if opens == '{' {
			key, _ := w.dec.Token()
			if name, _ := key.(string); t != nil && t.Kind() == reflect.Struct {
				of = w.field(t, name)
			}
		}
		if element != nil {
			w.left -= elementCost * int(element.Size())
		}
		w.value(of, depth+1)
	}
	_, _ = w.dec.Token() // the closing bracket
}

// field is the type of a struct's field by its name in JSON, nil where it has none.
func (w *weigher) field(t reflect.Type, name string) reflect.Type {
	known := w.fields[t]
	if known == nil {
		known = map[string]reflect.Type{}
		for _, f := range reflect.VisibleFields(t) {
			tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if tag == "" {
				tag = f.Name
			}
			known[strings.ToLower(tag)] = f.Type
		}
		w.fields[t] = known
	}
	return known[strings.ToLower(name)]
}
