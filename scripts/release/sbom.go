package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// The parts of SPDX 2.3's JSON form that we fill.
type (
	spdxDocument struct {
		Version      string             `json:"spdxVersion"`
		License      string             `json:"dataLicense"`
		ID           string             `json:"SPDXID"`
		Name         string             `json:"name"`
		Namespace    string             `json:"documentNamespace"`
		Creation     spdxCreation       `json:"creationInfo"`
		Packages     []spdxPackage      `json:"packages"`
		Relationship []spdxRelationship `json:"relationships"`
	}
	spdxCreation struct {
		Created  time.Time `json:"created"`
		Creators []string  `json:"creators"`
	}
	spdxPackage struct {
		ID        string         `json:"SPDXID"`
		Name      string         `json:"name"`
		Version   string         `json:"versionInfo"`
		Location  string         `json:"downloadLocation"`
		Analyzed  bool           `json:"filesAnalyzed"`
		Concluded string         `json:"licenseConcluded"`
		Declared  string         `json:"licenseDeclared"`
		Copyright string         `json:"copyrightText"`
		Checksums []spdxChecksum `json:"checksums,omitempty"`
		Refs      []spdxRef      `json:"externalRefs,omitempty"`
	}
	spdxChecksum struct {
		Algorithm string `json:"algorithm"`
		Value     string `json:"checksumValue"`
	}
	spdxRef struct {
		Category string `json:"referenceCategory"`
		Type     string `json:"referenceType"`
		Locator  string `json:"referenceLocator"`
	}
	spdxRelationship struct {
		From string `json:"spdxElementId"`
		Kind string `json:"relationshipType"`
		To   string `json:"relatedSpdxElement"`
	}
)

// writeSBOM says what a program consists of, as the Go tool recorded it in the program itself (SPDX 2.3).
func writeSBOM(r release, program, file string) error {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return err
	}
	content, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(content)
	name := filepath.Base(filepath.Dir(program)) + "-" + filepath.Base(program)
	doc := spdxDocument{
		Version: "SPDX-2.3", License: "CC0-1.0", ID: "SPDXRef-DOCUMENT", Name: name + "-" + r.version,
		Namespace: "https://github.com/gobw/gobw/spdx/" + r.version + "/" + hex.EncodeToString(sum[:]),
		Creation:  spdxCreation{Created: r.when, Creators: []string{"Tool: gobw-release"}},
	}
	root := spdxOf("SPDXRef-gobw", "github.com/gobw/gobw", r.version)
	root.Declared, root.Concluded = "Apache-2.0", "Apache-2.0"
	root.Checksums = []spdxChecksum{{"SHA256", hex.EncodeToString(sum[:])}}
	std := spdxOf("SPDXRef-go", "go", info.GoVersion)
	doc.Packages = append(doc.Packages, root, std)
	doc.Relationship = append(doc.Relationship,
		spdxRelationship{doc.ID, "DESCRIBES", root.ID}, spdxRelationship{root.ID, "DEPENDS_ON", std.ID})
	for i, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		p := spdxOf("SPDXRef-module-"+strconv.Itoa(i), m.Path, m.Version)
		p.Refs = []spdxRef{{"PACKAGE-MANAGER", "purl", "pkg:golang/" + m.Path + "@" + m.Version}}
		doc.Packages = append(doc.Packages, p)
		doc.Relationship = append(doc.Relationship, spdxRelationship{root.ID, "DEPENDS_ON", p.ID})
	}
	text, err := json.MarshalIndent(doc, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(text, '\n'), 0o644)
}

func spdxOf(id, name, version string) spdxPackage {
	const unknown = "NOASSERTION"
	return spdxPackage{
		ID: id, Name: name, Version: version, Location: unknown, Concluded: unknown, Declared: unknown, Copyright: unknown,
	}
}
