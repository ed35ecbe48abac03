package main

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// writeImage writes an OCI image layout, which skopeo, podman and a registry's tools read; no daemon takes part. Its
// images hold the programs, the C library, and libibverbs with its providers.
func writeImage(r release, dir string) error {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, t := range targets {
		if t.OS != "linux" {
			continue
		}
		image, err := r.image(t)
		if err != nil {
			return err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: t.OS, Architecture: t.Arch}},
		})
	}
	_, err := layout.Write(dir, index)
	return err
}

// image is the image of one platform: a layer of libraries, which changes seldom, and a layer of ours.
func (r release) image(t target) (v1.Image, error) {
	libs, err := r.libraryLayer(t)
	if err != nil {
		return nil, err
	}
	var entries []entry
	for _, p := range programs {
		entries = append(entries, entry{name: "usr/bin/" + p, file: filepath.Join(r.built(t), p), mode: 0o755})
	}
	entries = append(entries, entry{name: "usr/share/doc/gobw/LICENSE", file: filepath.Join(r.source, "LICENSE"), mode: 0o644})
	var b bytes.Buffer
	if err := writeTar(&b, entries, r.when); err != nil {
		return nil, err
	}
	ours, err := layerOf(b.Bytes())
	if err != nil {
		return nil, err
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	if image, err = mutate.AppendLayers(image, libs, ours); err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = t.OS, t.Arch, v1.Time{Time: r.when}
	config.Config.Entrypoint = []string{"/usr/bin/gobw"}
	config.Config.Env = []string{"PATH=/usr/bin"}
	config.Config.Labels = map[string]string{
		"org.opencontainers.image.title": "gobw", "org.opencontainers.image.version": r.version, "org.opencontainers.image.licenses": "Apache-2.0",
	}
	return mutate.ConfigFile(image, config)
}

// libraryLayer unpacks the Debian packages of the lock.
func (r release) libraryLayer(t target) (v1.Layer, error) {
	dir, err := os.MkdirTemp("", "release-image-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	debs, err := fetchLocked(dir, t.Arch)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, deb := range debs {
		if err := appendPackage(w, deb, r.when); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return layerOf(b.Bytes())
}

func layerOf(content []byte) (v1.Layer, error) {
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(content)), nil
	}, tarball.WithMediaType(types.OCILayer))
}
