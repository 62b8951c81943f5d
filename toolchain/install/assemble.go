package install

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"gpubuild/buildenv"
)

var soname = regexp.MustCompile(`^lib/(lib[A-Za-z0-9_+-]+\.so)\.[0-9.]+$`)

// finish adds what builds expect of a toolkit and no wheel has: lib64, libX.so for libX.so.N, and version.json.
func (t *tree) finish(p Plan) error {
	if p.host.OS == buildenv.Linux {
		libs := false
		for _, f := range t.list() {
			libs = libs || strings.HasPrefix(f.Path, "lib/")
			if m := soname.FindStringSubmatch(f.Path); m != nil {
				if err := t.link("lib/"+m[1], f.Path[len("lib/"):]); err != nil {
					return err
				}
			}
		}
		if libs {
			if err := t.link("lib64", "lib"); err != nil {
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
