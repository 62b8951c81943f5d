package tree

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"gpubuild/buildenv/lazyregexp"
)

// Complete adds what builds expect of a toolkit and no archive has, then the marker.
func (t *Tree) Complete(in Installation) error {
	if strings.HasPrefix(in.Platform, "linux-") {
		if err := t.addLinks(in.Platform); err != nil {
			return err
		}
	}
	version, err := versionJSON(in)
	if err != nil {
		return err
	}
	if err := t.write("version.json", version); err != nil {
		return err
	}
	size := map[string]int64{}
	for _, f := range t.files {
		size[f.Part] += f.Size
	}
	in.Schema, in.Bytes = 2, 0
	for i, p := range in.Parts {
		in.Parts[i].Bytes = max(p.Bytes, size[p.Name]) // none of the files of a part that was there is new
		in.Bytes += in.Parts[i].Bytes
	}
	marker, err := json.MarshalIndent(in, "", "  ")
	if err != nil {
		return fmt.Errorf("%s: %w", MarkerFile, err)
	}
	return t.write(MarkerFile, append(marker, '\n'))
}

var soname = lazyregexp.New(`^lib/(lib[A-Za-z0-9_+-]+\.so)\.[0-9.]+$`)

// addLinks adds libX.so for libX.so.N, lib64, and targets/<target>/{lib,include}.
func (t *Tree) addLinks(platform string) error {
	for _, f := range slices.SortedFunc(maps.Values(t.files), func(a, b File) int { return strings.Compare(a.Path, b.Path) }) {
		if m := soname.FindStringSubmatch(f.Path); m != nil {
			if err := t.link("lib/"+m[1], f.Path[len("lib/"):]); err != nil {
				return err
			}
		}
	}
	if t.there("lib/libnvvm.so") { // NVIDIA's installers have it in nvvm, where cuda-oxide looks (libnvvm-sys 0.2.1)
		if err := cmp.Or(t.root.MkdirAll("nvvm/lib64", 0o755), t.link("nvvm/lib64/libnvvm.so", "../../lib/libnvvm.so")); err != nil {
			return err
		}
	}
	if t.there("lib") {
		if err := t.link("lib64", "lib"); err != nil {
			return err
		}
	}
	// NVIDIA's installers put headers and libraries below targets; lib64 and include are links to
	// it there. The cc crate passes the linker no other directory (cc 1.11.1 src/lib.rs,
	// try_compile: targets/x86_64-linux/lib next to nvcc's directory, for aarch64 sbsa-linux, too).
	target := "targets/x86_64-linux"
	if strings.HasSuffix(platform, "aarch64") {
		target = "targets/sbsa-linux"
	}
	for _, dir := range []string{"lib", "include"} {
		if !t.there(dir) {
			continue
		}
		if err := t.root.MkdirAll(target, 0o755); err != nil {
			return err
		}
		if err := t.link(target+"/"+dir, "../../"+dir); err != nil {
			return err
		}
	}
	return nil
}

// versionJSON is the file in which CMake, meson and others look for a toolkit's version; its form is that of NVIDIA's installers.
func versionJSON(in Installation) ([]byte, error) {
	type entry struct {
		Name    string `json:"name"`
		Version string `json:"version"`
	}
	all := map[string]entry{"cuda": {"CUDA SDK", in.Release}}
	for _, p := range in.Parts {
		name := strings.TrimPrefix(p.Package, "nvidia-")
		all[strings.ReplaceAll(name, "-", "_")] = entry{name, p.Version}
	}
	data, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("version.json: %w", err)
	}
	return append(data, '\n'), nil
}
