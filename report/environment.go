package report

import "strings"

// Fact is one thing about an end of a run: a field of [Environment] with a tag "fact", which has its name and what it
// means where it is another: "unlike", the figures cannot be compared; "changed", a comparison may be about it; "anew",
// it is measured each time.
type Fact struct {
	Name, Value string
	Known       bool // it is not the usual value, or none
	Means       string
}

// Facts are those of an end in the order of its fields.
func (e *Environment) Facts() []Fact {
	var out []Fact
	for _, f := range fieldsOf(e) {
		if name, means, _ := strings.Cut(f.Tag.Get("fact"), ","); name != "" {
			value, unusual := f.text()
			if value == "" {
				value = f.Tag.Get("usual")
			}
			if value == "-1" { // of what is counted from 0
				value = "none"
			}
			out = append(out, Fact{name, value, unusual, means})
		}
	}
	return out
}
