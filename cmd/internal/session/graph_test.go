package session

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gpubuild/buildenv"
	"gpubuild/buildenv/hosttest"
	"gpubuild/cmd/internal/config"
	"gpubuild/features/manifest"
	"gpubuild/toolchain/cargo"
)

// answering is a cargo that answers what it is asked about, or refuses.
type answering struct {
	graph, metadata, places string // empty: it refuses
	stderr                  string
	asked                   []string
}

func (a *answering) Run(_ context.Context, c buildenv.Cmd) (buildenv.Result, error) {
	what, text := "graph", a.graph
	if slices.Contains(c.Args, "metadata") {
		if what, text = "metadata", a.metadata; slices.Contains(c.Args, "--no-deps") && a.places != "" {
			what, text = "places", a.places
		}
	}
	a.asked = append(a.asked, what)
	if c.Stderr != nil {
		_, _ = c.Stderr.Write([]byte(a.stderr))
	}
	r := buildenv.Result{Stdout: []byte(text)}
	if text == "" {
		r.Code = 101
		return r, &buildenv.ExitError{Cmd: c, Result: r}
	}
	return r, nil
}

const (
	gpuProject = "[package]\nname = \"app\"\nversion = \"1.0.0\"\nedition = \"2021\"\n[dependencies]\ncandle-kernels = \"0.9\"\n"
	cpuProject = "[package]\nname = \"app\"\nversion = \"1.0.0\"\nedition = \"2021\"\n"
	oneUnit    = `{"version":1,"units":[{"pkg_id":"path+file://%s#app@1.0.0","target":{"kind":["bin"],"name":"app","src_path":"/x"},"mode":"build","features":[],"dependencies":[]}],"roots":[0]}`
	packages   = `{"packages":[{"name":"app","version":"1.0.0","id":"path+file://%[1]s#app@1.0.0","manifest_path":"%[1]s/Cargo.toml","source":null,"features":{},"targets":[],"dependencies":[]},` +
		`{"name":"near","version":"1.0.0","id":"path+file://%[2]s#near@1.0.0","manifest_path":"%[2]s/Cargo.toml","source":null,"features":{},"targets":[],"dependencies":[]}],` +
		`"workspace_members":["path+file://%[1]s#app@1.0.0"],"workspace_default_members":["path+file://%[1]s#app@1.0.0"],"resolve":null,"workspace_root":"%[1]s","target_directory":"%[1]s/target","version":1}`
)

// asking is a project with a cargo that answers everything.
func asking(t *testing.T, project string) (*Session, *answering, cargo.Tool, string) {
	t.Helper()
	m, top := newPlace(t, map[string]string{"w/Cargo.toml": project, "w/src/main.rs": "fn main() {}\n", "w/Cargo.lock": "version = 4\n", "bin/cargo": "", "bin/rustc": "", "near/Cargo.toml": cpuProject,
		"w/mine.json": "{}", "w/more.toml": "", "w/.cargo/config.toml": "include = \"../included.toml\"\n", "w/included.toml": ""})
	m.Host.Env = m.Host.Env.Set("PATH", filepath.Join(top, "bin"))
	for _, name := range []string{"cargo", "rustc"} {
		hosttest.OK(t, os.Chmod(filepath.Join(top, "bin", name), 0o755))
	}
	m.Began = time.Now().Add(time.Hour) // what was written just now counts as old
	w := filepath.Join(top, "w")
	run := &answering{graph: fmt.Sprintf(oneUnit, w), metadata: fmt.Sprintf(packages, w, filepath.Join(top, "near")), places: `{"target_directory":"/t","build_directory":"/b","workspace_root":"/w"}`}
	m.Runner = run
	s := hosttest.Must(Open(m, lineOf(t, "build")))(t)
	return s, run, cargo.Tool{Path: filepath.Join(top, "bin", "cargo"), Dir: w, Env: m.Host.Env}, top
}

func lineOf(t *testing.T, words string) cargo.Line {
	t.Helper()
	line, _ := hosttest.Must2(cargo.Split(strings.Fields(words), nil))(t)
	return line
}

// TestGraph: what cargo is asked, and what comes of its answers.
func TestGraph(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		story, project string
		q              Question
		change         func(*answering)
		asked          string
		want           string // units, places, metadata; or the error
	}{
		{"a project without a GPU", cpuProject, Question{}, nil, "graph", "1 unit"},
		{"where it builds", cpuProject, Question{Places: true}, nil, "graph places", "1 unit, built in /b"},
		{"one with a GPU", gpuProject, Question{}, nil, "graph metadata", "1 unit, 2 packages"},
		{"a cargo that knows no unit graph", cpuProject, Question{}, func(a *answering) { a.graph = "hello" }, "graph", "unknown"},
		{"one that refuses", gpuProject, Question{}, func(a *answering) { a.graph, a.stderr = "", "error: no such feature\n" }, "graph", "no such feature"},
		{"one that says where in an odd way", cpuProject, Question{Places: true}, func(a *answering) { a.places = "{}" }, "graph places", "no target_directory"},
		{"one that gives half a graph", cpuProject, Question{Places: true}, func(a *answering) { a.graph = `{"version":1` }, "graph", "unexpected"},
	} {
		s, run, tool, _ := asking(t, tt.project)
		if tt.change != nil {
			tt.change(run)
		}
		g, err := s.Graph(t.Context(), tool, tt.q)
		got := "unknown"
		if g.Units != nil {
			got = fmt.Sprint(len(g.Units.Units), " unit")
		}
		if g.Places.BuildDirectory != "" {
			got += ", built in " + g.Places.BuildDirectory
		}
		if g.Metadata != nil {
			got += fmt.Sprintf(", %d packages", len(g.Metadata.Packages))
		}
		if err != nil {
			got = err.Error()
		}
		if asked := strings.Join(run.asked, " "); asked != tt.asked || err == nil && got != tt.want || !strings.Contains(got, tt.want) || (g.Reason != "") != (got == "unknown") {
			t.Errorf("%s: asked %s, %q (%s), want %s, %q", tt.story, asked, got, g.Reason, tt.asked, tt.want)
		}
		if err == nil && g.Project == nil {
			t.Errorf("%s: no project", tt.story)
		}
	}
}

// TestGraphIsKept until something changes that cargo looks at.
func TestGraphIsKept(t *testing.T) {
	t.Parallel()
	write := func(name, text string) func(string, *Session, *cargo.Tool) {
		return func(top string, _ *Session, _ *cargo.Tool) {
			path := filepath.Join(top, filepath.FromSlash(name))
			hosttest.Equal(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o755)), nil)
		}
	}
	env := func(name string) func(string, *Session, *cargo.Tool) {
		return func(_ string, _ *Session, tool *cargo.Tool) { tool.Env = tool.Env.Set(name, "x") }
	}
	for _, tt := range []struct {
		story  string
		change func(string, *Session, *cargo.Tool)
		again  bool
	}{
		{"nothing", func(string, *Session, *cargo.Tool) {}, false},
		{"a source", write("w/src/main.rs", "fn main() { }\n"), false},
		{"the manifest", write("w/Cargo.toml", gpuProject+"\n"), true},
		{"the lock", write("w/Cargo.lock", "version = 3\n"), true},
		{"a program more", write("w/src/bin/b.rs", "fn main() {}\n"), true},
		{"a build script", write("w/build.rs", "fn main() {}\n"), true},
		{"a toolchain above", write("rust-toolchain.toml", ""), true},
		{"cargo's configuration", write("w/.cargo/config.toml", ""), true},
		{"what it includes", write("w/included.toml", "[build]\n"), true},
		{"cargo's configuration above", write(".cargo/config.toml", ""), true},
		{"the user's", write("home/config.toml", ""), true},
		{"a package that only cargo names", write("near/Cargo.toml", cpuProject+"\n"), true},
		{"a target of the user's own", write("w/mine.json", "{ }"), true},
		{"a configuration on the command line", write("w/more.toml", "[build]\n"), true},
		{"rustc", write("bin/rustc", "x"), true}, {"cargo", write("bin/cargo", "x"), true},
		{"a variable of cargo's", env("CARGO_BUILD_JOBS"), true}, {"another variable", env("EDITOR"), false},
		{"a kept answer that is damaged", func(top string, _ *Session, _ *cargo.Tool) {
			_ = filepath.WalkDir(filepath.Join(top, "cache", "memo"), func(path string, e os.DirEntry, err error) error {
				if err == nil && !e.IsDir() {
					return os.WriteFile(path, nil, 0o600)
				}
				return err
			})
		}, true},
		{"another question", func(_ string, s *Session, _ *cargo.Tool) { s.Line = lineOf(t, "check") }, true},
	} {
		s, run, tool, top := asking(t, gpuProject)
		s.Line = lineOf(t, "build --target mine.json --config more.toml")
		first := hosttest.Must(s.Graph(t.Context(), tool, Question{}))(t)
		asked := len(run.asked)
		tt.change(top, s, &tool)
		second, err := s.Graph(t.Context(), tool, Question{})
		if again := len(run.asked) > asked; again != tt.again || err != nil || len(second.Units.Units) != len(first.Units.Units) || second.Project == nil {
			t.Errorf("%s: asked again is %v, %v", tt.story, again, err)
		}
	}
}

// TestPackages: the project as cargo's metadata has it, and what cargo refuses.
func TestPackages(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		story   string
		change  func(*answering)
		asked   int // for two questions
		refused string
		same    bool // as the manifests have it
	}{
		{"it answers", func(*answering) {}, 1, "", false},
		{"it refuses", func(a *answering) { a.metadata, a.places, a.stderr = "", "", "error: bad workspace\n" }, 4, "bad workspace", true},
		{"it says something else", func(a *answering) { a.metadata = "hello" }, 2, "", true},
	} {
		s, run, tool, _ := asking(t, gpuProject)
		tt.change(run)
		for range 2 {
			p, refused := s.Packages(t.Context(), tool, false)
			if !strings.Contains(refused, tt.refused) || tt.refused == "" && refused != "" || (p == s.Project) != tt.same {
				t.Errorf("%s: the same is %v, %q", tt.story, p == s.Project, refused)
			}
		}
		hosttest.Equal(t, len(run.asked), tt.asked, tt.story, "asked", run.asked)
		known, err := s.WithMetadata(t.Context(), false)
		if (err != nil) != tt.same || err != nil && !strings.Contains(err.Error(), "cargo refuses the workspace: "+tt.refused) || err == nil && known.Project == s.Project {
			t.Errorf("%s: %v", tt.story, err)
		}
	}
	s, _, _, _ := asking(t, gpuProject)
	s.Machine.Host.Env = s.Machine.Host.Env.Unset("PATH")
	if _, err := s.WithMetadata(t.Context(), false); err == nil || !strings.Contains(err.Error(), "no cargo") {
		t.Errorf("without a cargo: %v", err)
	}
}

// TestInput: a check is strict where a flag or the configuration says so, and an answer about a directory that never changes is kept.
func TestInput(t *testing.T) {
	t.Parallel()
	s, _, _, _ := asking(t, cpuProject)
	other := &manifest.Project{}
	for _, tt := range []struct{ flag, configured bool }{{false, false}, {true, false}, {false, true}} {
		s.Config.Strict = config.Value[bool]{Value: tt.configured}
		if in := s.Input(Graph{}, tt.flag); in.Strict != (tt.flag || tt.configured) || in.Project != s.Project {
			t.Errorf("%+v: %+v", tt, in)
		}
	}
	if in := s.Input(Graph{Project: other}, false); in.Project != other {
		t.Error("not the project that cargo knows")
	}
}

// TestScratch: what gpubuild works with is in the cache, or in one temporary directory that is removed.
func TestScratch(t *testing.T) {
	t.Parallel()
	s, _, _, _ := asking(t, cpuProject)
	m := s.Machine
	m.Temp = &Temporary{}
	if dir, err := m.Scratch("cargo", "w"); err != nil || !m.Host.Below(dir, m.CacheDir) {
		t.Errorf("%s, %v", dir, err)
	}
	m.CacheDir = filepath.Join(os.DevNull, "x")
	first, err := m.Scratch("cargo", "w")
	second, again := m.Scratch("cargo", "w")
	if err != nil || again != nil || first != second || !m.Host.IsDir(first) {
		t.Fatalf("%s, %v; %s, %v", first, err, second, again)
	}
	if m.Temp.Remove(); m.Host.IsDir(first) {
		t.Errorf("%s is not removed", first)
	}
}
