package features

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"gpubuild/buildenv/hosttest"
	"gpubuild/features/graph"
	"gpubuild/features/manifest"
)

// allocated is how often memory is taken, and how much: what stands for steps, whatever else the machine does.
func allocated(do func()) (times, bytes float64) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return float64(after.Mallocs - before.Mallocs), float64(after.TotalAlloc - before.TotalAlloc)
}

// grows fails if twice the size costs more than most times as much.
func grows(t *testing.T, story string, size int, most float64, prepare func(size int) (do func())) {
	t.Helper()
	times, bytes := allocated(prepare(size))
	more, larger := allocated(prepare(2 * size))
	if more > most*times || larger > most*bytes {
		t.Errorf("%s: %.0f allocations of %.0f bytes for %d, %.0f of %.0f for twice as many", story, times, bytes, size, more, larger)
	}
}

// TestLongChains: the check of a chain of 60,000 features costs twice that of 30,000. Of packages that forward a feature each member is
// judged with all that it links: the answers themselves are quadratic, nothing is cubic.
func TestLongChains(t *testing.T) {
	load := func(files map[string]string) *manifest.Project {
		return hosttest.Must(manifest.Load(hosttest.Memory(files), "/w/Cargo.toml"))(t)
	}
	grows(t, "features", 30_000, 2.5, func(size int) func() {
		var b strings.Builder
		for i := range size {
			fmt.Fprintf(&b, "f%d = [\"f%d\"]\n", i, i+1)
		}
		p := load(map[string]string{"/w/Cargo.toml": "[package]\nname = \"app\"\nversion = \"1.0.0\"\n[dependencies]\ncudarc = { path = \"cudarc\", optional = true }\n" +
			"[features]\ncuda = [\"f0\"]\n" + b.String() + fmt.Sprintf("f%d = [\"dep:cudarc\"]\n", size),
			"/w/cudarc/Cargo.toml": "[package]\nname = \"cudarc\"\nversion = \"0.19.0\"\n[features]\ndriver = []\n"})
		return func() {
			f := Gather(hosttest.Memory(nil), Input{Project: p, Request: manifest.Request{Features: []string{"cuda"}}, Alone: p.Selected, Lint: true})
			if a := Judge(&f); len(a.Roots[0].Crates) != 2 {
				t.Errorf("%+v", a.Roots)
			}
		}
	})
	packages := func(size int) *manifest.Project {
		files := map[string]string{"/w/Cargo.toml": "[workspace]\nmembers = [\"p*\"]\n"}
		for i := range size {
			text := fmt.Sprintf("[package]\nname = \"p%d\"\nversion = \"1.0.0\"\n[features]\n", i)
			if i == size-1 {
				text += "cuda = []\n"
			} else {
				text += fmt.Sprintf("cuda = [\"p%d/cuda\"]\n[dependencies]\np%d = { path = \"../p%d\", optional = true }\n", i+1, i+1, i+1)
			}
			files[fmt.Sprintf("/w/p%d/Cargo.toml", i)] = text
		}
		return load(files)
	}
	all := manifest.Request{Workspace: true, AllFeatures: true}
	grows(t, "packages, alone", 150, 4.5, func(size int) func() {
		p := packages(size)
		return func() {
			src := NewSources(hosttest.Memory(nil), p)
			for _, m := range p.Members {
				f := Gather(hosttest.Memory(nil), Input{Project: p, Request: all, Alone: m, Lint: true, Sources: src})
				Judge(&f)
			}
		}
	})
	grows(t, "packages, together", 150, 4.5, func(size int) func() {
		p, g := packages(size), &graph.Graph{Version: 1}
		for i := range size {
			u := unit(fmt.Sprintf("p%d", i))
			if i < size-1 {
				u.Dependencies = []graph.UnitDep{{Index: i + 1, Name: fmt.Sprintf("p%d", i+1)}}
			}
			g.Units, g.Roots = append(g.Units, u), append(g.Roots, i)
		}
		return func() {
			f := Gather(hosttest.Memory(nil), Input{Project: p, Request: all, Graph: g})
			if a := Judge(&f); len(a.Roots) != size {
				t.Error(len(a.Roots))
			}
		}
	})
}

// unit is the library of a package of the workspace with its feature cuda.
func unit(name string) graph.Unit {
	return graph.Unit{PkgID: "path+file:///w/" + name + "#1.0.0", Mode: "build", Features: []string{"cuda"},
		Target: graph.Target{Kind: []string{"lib"}, Name: name, SrcPath: "/w/" + name + "/src/lib.rs"}}
}
