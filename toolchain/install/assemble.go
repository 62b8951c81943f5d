package install

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"

	"gpubuild/buildenv"
)

var soname = regexp.MustCompile(`^lib/(lib[A-Za-z0-9_+-]+\.so)\.[0-9.]+$`)

// finish adds what builds expect of a toolkit and no wheel has: lib64, targets, libX.so for libX.so.N, and version.json.
func (t *tree) finish(p Plan) error {
	if p.host.OS == buildenv.Linux {
		there := map[string]bool{}
		for _, f := range t.list() {
			top, _, _ := strings.Cut(f.Path, "/")
			there[top] = true
			if m := soname.FindStringSubmatch(f.Path); m != nil {
				if err := t.link("lib/"+m[1], f.Path[len("lib/"):]); err != nil {
					return err
				}
			}
		}
		if there["lib"] {
			if err := t.link("lib64", "lib"); err != nil {
				return err
			}
		}
		target := "targets/" + targetOf(p)
		for _, dir := range []string{"lib", "include"} {
			if !there[dir] {
				continue
			}
			if err := t.mkdir(filepath.Join(t.root, filepath.FromSlash(target))); err != nil {
				return err
			}
			if err := t.link(target+"/"+dir, "../../"+dir); err != nil {
				return err
			}
		}
	}
	data, err := versionJSON(p)
	if err != nil {
		return err
	}
	return t.write("version.json", data)
}

// targetOf is the directory below targets in which NVIDIA's installers put a toolkit's headers and libraries; lib64 and include are links to it there.
// The cc crate tells the linker of nothing else (cc 1.11.1 src/lib.rs, try_compile: targets/x86_64-linux/lib beside nvcc's directory, for aarch64
// sbsa-linux, too).
func targetOf(p Plan) string {
	if strings.HasSuffix(p.Platform, "aarch64") {
		return "sbsa-linux"
	}
	return "x86_64-linux"
}

// versionJSON is the file by which CMake, meson and others tell a toolkit's version; its form is that of NVIDIA's installers.
func versionJSON(p Plan) ([]byte, error) {
	type entry struct {
		Name    string `json:"name"`
		Version string `json:"version"`
	}
	all := map[string]entry{"cuda": {"CUDA SDK", p.Release}}
	for _, it := range p.Items {
		key := strings.ReplaceAll(strings.TrimPrefix(it.Package, "nvidia-"), "-", "_")
		all[key] = entry{strings.TrimPrefix(it.Package, "nvidia-"), it.Version}
	}
	data, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("version.json: %w", err)
	}
	return append(data, '\n'), nil
}
