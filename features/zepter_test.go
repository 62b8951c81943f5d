package features

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gpubuild/buildenv/hosttest/need"
	"gpubuild/buildenv/local"
	"gpubuild/features/manifest"
)

// propagation is one step that a feature does not take: from a package to a dependency of it.
type propagation struct{ from, to string }

// askZepter reads `zepter lint propagate-feature` (https://github.com/ggwpez/zepter): a crate, a feature, and below "must propagate to" or
// "is required by" the dependencies concerned.
func askZepter(t *testing.T, dir string) map[propagation]bool {
	t.Helper()
	c := exec.Command("zepter", "lint", "propagate-feature", "--features", "cuda", "--offline", "--locked")
	c.Dir = dir
	out, err := c.CombinedOutput()
	if err != nil && c.ProcessState.ExitCode() != 1 {
		t.Fatalf("zepter: %v\n%s", err, out)
	}
	found := map[propagation]bool{}
	crate, list := "", false
	for _, line := range strings.Split(string(out), "\n") {
		words := strings.Fields(line)
		switch {
		case len(words) == 0 || strings.HasPrefix(line, "Found "):
			list = false
		case words[0] == "crate":
			crate, list = strings.Trim(words[1], "'"), false
		case strings.HasSuffix(line, "must propagate to:") || strings.Contains(line, "is required by"):
			list = true
		case words[0] == "feature":
			list = false
		case list && len(words) >= 1:
			found[propagation{crate, words[0]}] = true
		default:
			t.Fatalf("zepter says what is not understood: %q in\n%s", line, out)
		}
	}
	if err != nil && len(found) == 0 {
		t.Fatalf("zepter found something that was not understood:\n%s", out)
	}
	return found
}

// cargoPackage is what cargo metadata says of a package: an answer that owes nothing to our own reading of manifests.
type cargoPackage struct {
	ID           string              `json:"id"`
	Name         string              `json:"name"`
	Features     map[string][]string `json:"features"`
	Dependencies []struct {
		Name     string   `json:"name"`
		Rename   string   `json:"rename"`
		Kind     string   `json:"kind"`
		Features []string `json:"features"`
	} `json:"dependencies"`
	Targets []struct {
		Kind []string `json:"kind"`
	} `json:"targets"`
}

// excuse says why a finding of zepter's is no fault; empty where it is one. The words are counted.
func excuse(z propagation, packages map[string]cargoPackage, members []string) string {
	from, to := packages[z.from], packages[z.to]
	for _, p := range []cargoPackage{from, to} {
		for _, t := range p.Targets {
			if slices.Contains(t.Kind, "proc-macro") {
				return "a proc-macro runs in the compiler"
			}
		}
	}
	if !slices.Contains(members, from.ID) {
		return "outside the workspace: not the user's manifest"
	}
	linked, always := false, true
	keys := []string{}
	for _, d := range from.Dependencies {
		if d.Name != z.to {
			continue
		}
		if d.Kind == "" {
			linked = true
			always = always && slices.Contains(d.Features, "cuda")
			keys = append(keys, d.Name, d.Rename)
		}
	}
	switch {
	case !linked:
		return "a build- or dev-dependency is not linked"
	case always:
		return "the dependency table turns it on already"
	}
	_, has := from.Features["cuda"]
	source := []string{"cuda"}
	if !has {
		for f := range from.Features {
			source = append(source, f)
		}
	}
	for f := range turnedOn(from.Features, source) {
		for _, k := range keys {
			for _, edge := range from.Features[f] {
				if on, ok := strings.CutPrefix(strings.Replace(edge, "?/", "/", 1), k+"/"); k != "" && ok && on != "cuda" &&
					turnedOn(to.Features, []string{on})["cuda"] {
					return "a feature that brings it is passed on"
				}
			}
		}
	}
	for _, d := range from.Dependencies {
		if d.Name == z.to && d.Kind == "" && turnedOn(to.Features, d.Features)["cuda"] {
			return "the dependency table turns on a feature that brings it"
		}
	}
	if !has {
		for _, edges := range from.Features {
			for _, k := range keys {
				if slices.Contains(edges, k+"/cuda") || slices.Contains(edges, k+"?/cuda") {
					return "another feature passes it on"
				}
			}
		}
	}
	return ""
}

// turnedOn follows features within one package.
func turnedOn(features map[string][]string, from []string) map[string]bool {
	on := map[string]bool{}
	for len(from) > 0 {
		f := from[0]
		from = from[1:]
		if !on[f] {
			on[f] = true
			from = append(from, features[f]...)
		}
	}
	return on
}

// TestPropagationFindsWhatZepterFinds: on every stored shape and on random workspaces, whatever zepter's lint finds is found by ours, or is
// no fault and the reason is one of a few that cargo's own metadata shows.
func TestPropagationFindsWhatZepterFinds(t *testing.T) {
	need.Asked(t, "zepter", "cargo")
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	write := func(top string, files map[string]string) {
		t.Helper()
		for p, text := range files {
			full := filepath.Join(top, filepath.FromSlash(p))
			if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(full, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	var dirs []string
	shapes := shapeFiles(t)
	write(filepath.Join(root, "shapes"), shapes)
	for p := range shapes {
		if dir, rest, _ := strings.Cut(p, "/"); rest == "Cargo.toml" && dir != "stub" {
			dirs = append(dirs, filepath.Join(root, "shapes", dir))
		}
	}
	slices.Sort(dirs)
	count := need.Count(t, "random", 30)
	for i := range count {
		seed := int64(i) + 1
		files, _ := generate(seed)
		top := filepath.Join(root, fmt.Sprintf("random%d", seed))
		write(top, files)
		dirs = append(dirs, filepath.Join(top, "ws"))
	}
	h, err := local.Host()
	if err != nil {
		t.Fatal(err)
	}
	excused, same, more := map[string]int{}, 0, 0
	for _, dir := range dirs {
		cargo := func(args ...string) []byte {
			t.Helper()
			c := exec.Command("cargo", args...)
			c.Dir = dir
			var said bytes.Buffer
			c.Stderr = &said
			out, err := c.Output()
			if err != nil {
				t.Fatalf("cargo %v in %s: %v\n%s", args, dir, err, said.String())
			}
			return out
		}
		cargo("generate-lockfile", "--offline", "-q")
		var meta struct {
			Packages []cargoPackage `json:"packages"`
			Members  []string       `json:"workspace_members"`
		}
		if err := json.Unmarshal(cargo("metadata", "--format-version", "1", "--offline", "--locked"), &meta); err != nil {
			t.Fatal(err)
		}
		packages := map[string]cargoPackage{}
		for _, p := range meta.Packages {
			packages[p.Name] = p
		}
		p, err := manifest.Load(h, filepath.Join(dir, "Cargo.toml"))
		if err != nil {
			t.Fatal(err)
		}
		check, err := NewEdgeCheck(h, Input{Project: p})
		if err != nil {
			t.Fatal(err)
		}
		ours := map[propagation]bool{}
		for _, f := range checkAll(check) {
			if strings.Contains(f.Message, "`cudnn`") {
				continue
			}
			if len(f.Edits) == 0 {
				t.Fatalf("a finding without an edit: %s", f.Message)
			}
			for _, add := range f.Edits[0].Add {
				key, _, _ := strings.Cut(strings.TrimPrefix(add, "dep:"), "/")
				for _, d := range packages[f.Root].Dependencies { // zepter names packages
					if key = strings.TrimSuffix(key, "?"); d.Rename == key || d.Rename == "" && d.Name == key {
						ours[propagation{f.Root, d.Name}] = true
					}
				}
			}
		}
		theirs := askZepter(t, dir)
		for z := range theirs {
			why := excuse(z, packages, meta.Members)
			switch {
			case ours[z] && (strings.HasPrefix(why, "the dependency table") || strings.HasPrefix(why, "another feature")):
				more++ // an edge that a chosen fix goes through, though its dependency is on already
			case ours[z] && why != "":
				t.Errorf("%s: %v is found, and is no fault: %s", dir, z, why)
			case ours[z]:
				same++
			case why != "":
				excused[why]++
			default:
				// Zepter wants every dependency's feature; we want the GPU crates on, and cargo says whether they are.
				if _, has := packages[z.from].Features["cuda"]; !has {
					excused["the package has no cuda of its own"]++
					continue
				}
				out := string(
					cargo(
						"tree",
						"--offline",
						"-p",
						z.from,
						"--features",
						"cuda",
						"-e",
						"normal,no-proc-macro",
						"--prefix",
						"none",
						"-f",
						"{p} [{f}]",
					),
				)
				off := offGPU(out, packages)
				switch {
				case off == "":
					excused["the GPU crates are on all the same"]++
				case len(ours) > 0:
					excused["the edge of another finding turns them on"]++
				default:
					t.Errorf("%s: zepter finds %v, and we do not, and %s is off", dir, z, off)
				}
			}
		}
		for o := range ours {
			if !theirs[o] {
				more++
			}
		}
	}
	if same == 0 {
		t.Error("zepter and we found nothing in common: the comparison is empty")
	}
	t.Logf("%d workspaces: %d found by both, %d by us alone, of zepter's alone %v", len(dirs), same, more, excused)
}

// offGPU answers the first GPU crate of `cargo tree`'s answer that has a feature cuda which is off.
func offGPU(tree string, packages map[string]cargoPackage) string {
	for line := range strings.Lines(tree) {
		name, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		if _, has := packages[name].Features["cuda"]; !has || name != "candle-core" && name != "candle-nn" && name != "cudarc" {
			continue
		}
		_, on, _ := strings.Cut(rest, "[")
		if !slices.Contains(strings.Split(strings.TrimRight(on, "] (*)"), ","), "cuda") {
			return name
		}
	}
	return ""
}
