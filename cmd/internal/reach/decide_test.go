package reach

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/finding"
	"gpubuild/buildenv/hosttest"
	"gpubuild/buildenv/local"
	"gpubuild/cmd/internal/console"
	"gpubuild/cmd/internal/session"
	"gpubuild/features"
	"gpubuild/features/edit"
	"gpubuild/features/graph"
	"gpubuild/toolchain/cargo"
)

func lineOf(t *testing.T, words string) cargo.Line {
	t.Helper()
	line, _ := hosttest.Must2(cargo.Split(strings.Fields(words), nil))(t)
	return line
}

const pkg = "[package]\nname = \"app\"\nversion = \"1.0.0\"\nedition = \"2021\"\n"

// open is a session of a workspace of app, and of lib in lib.
func open(t *testing.T, words, app, lib string) (*session.Session, *bytes.Buffer) {
	t.Helper()
	top := t.TempDir()
	for name, text := range map[string]string{
		"Cargo.toml": pkg + app + "[workspace]\nmembers = [\"lib\"]\n", "src/main.rs": "", "lib/src/lib.rs": "",
		"lib/Cargo.toml": strings.Replace(pkg, "app", "lib", 1) + lib,
	} {
		path := filepath.Join(top, filepath.FromSlash(name))
		hosttest.OK(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)))
	}
	h := hosttest.Must(local.Host())(t)
	h.Cwd, h.Env = top, buildenv.NewEnv(h.OS, []string{"CARGO_HOME=" + filepath.Join(top, "home")})
	said := &bytes.Buffer{}
	m := &session.Machine{Host: h, CacheDir: filepath.Join(top, "cache"), Temp: &session.Temporary{}, Began: time.Now(), Shell: &console.Shell{Out: said, Err: said}}
	s := hosttest.Must(session.Open(m, lineOf(t, words)))(t)
	return s, said
}

// TestQuestions: which features of which members are asked about: all, or those that the command line selects and names.
func TestQuestions(t *testing.T) {
	t.Parallel()
	const both = "[features]\ncuda = []\nwgpu = []\nserde = []\n"
	for words, want := range map[string]string{
		"build": "app/cuda app/wgpu lib/cuda", "build -p lib": "lib/cuda", "build --workspace": "app/cuda app/wgpu lib/cuda", "build --workspace --exclude app": "lib/cuda",
		"build --features cuda": "app/cuda lib/cuda", "build --features lib/cuda": "lib/cuda", "build --features serde": "", "build --all-features": "app/cuda app/wgpu lib/cuda",
		"build -p lib --features wgpu": "", "build -p none": "usage", "build --features cuda,wgpu -p app": "app/cuda app/wgpu",
	} {
		s, _ := open(t, words, both, "[features]\ncuda = []\n")
		list, err := questions(s)
		var got []string
		for _, q := range list {
			if got = append(got, q.Package+"/"+q.Feature); len(q.request.Features) != 1 || q.request.Features[0] != q.Feature || q.member.Name != q.Package {
				t.Errorf("%s: %+v", words, q)
			}
		}
		text := strings.Join(got, " ")
		if exit.Of(err) == exit.Usage {
			text = "usage"
		} else if err != nil {
			t.Errorf("%s: %v", words, err)
		}
		hosttest.Equal(t, text, want, words)
	}
}

// fault is a finding with edits of a manifest.
func fault(severity, path string, names ...string) features.Finding {
	f := features.Finding{Finding: finding.Finding{ID: features.IDUnreached, Severity: severity, Message: path + strings.Join(names, ""), Fix: strings.Join(names, "\n")}}
	for _, name := range names {
		f.Edits = append(f.Edits, edit.Edit{Manifest: path, Feature: name, Add: []string{"x/" + name}})
	}
	return f
}

// TestFixable: a finding can be fixed where all of its edits are in manifests of the workspace; of a build, where that is an error.
func TestFixable(t *testing.T) {
	t.Parallel()
	s, _ := open(t, "build", "", "")
	member, stranger := s.Project.Selected.Manifest, filepath.Join(s.Project.Root, "other", "Cargo.toml")
	mixed := fault(features.Error, member, "a")
	mixed.Edits = append(mixed.Edits, fault(features.Error, stranger, "b").Edits...)
	for _, tt := range []struct {
		f           features.Finding
		want, build bool
	}{
		{fault(features.Error, member, "a"), true, true}, {fault(features.Warning, member, "a"), true, false}, {fault(features.Error, stranger, "a"), false, false},
		{mixed, false, false}, {fault(features.Error, member), false, false},
	} {
		j := Judged{Session: s, Reach: &features.Reach{Findings: []features.Finding{tt.f}}}
		if got := fixable(s.Project, tt.f); got != tt.want || j.Fixable() != tt.build {
			t.Errorf("%+v: %v, the build %v", tt.f.Edits, got, j.Fixable())
		}
	}
}

// TestNextFault: the first that can be fixed and was not tried; a note is none.
func TestNextFault(t *testing.T) {
	t.Parallel()
	s, _ := open(t, "build", "", "")
	m := s.Project.Selected.Manifest
	f := NewFixer(s.Machine, FixOptions{})
	list := []features.Finding{fault(features.Note, m, "n"), fault(features.Error, "/other", "o"), fault(features.Warning, m, "w"), fault(features.Error, m, "e")}
	for _, want := range []string{"w", "e", ""} {
		got := f.next(s.Project, list)
		if (got == nil) != (want == "") || got != nil && got.Edits[0].Feature != want {
			t.Fatalf("%+v, want %q", got, want)
		}
		if got != nil {
			f.tried[fmt.Sprintf("%#v", got.Edits)] = true // as Fix does
		}
	}
}

// TestShownFindings: notes only where all are wanted or no GPU code is linked; a fix of many lines is cut, and the command named that writes it.
func TestShownFindings(t *testing.T) {
	t.Parallel()
	s, _ := open(t, "build --features cuda", "[features]\ncuda = []\n", "")
	m := s.Project.Selected.Manifest
	note := fault(features.Note, m, "n")
	long := fault(features.Error, m, "a", "b", "c")
	for _, tt := range []struct {
		story      string
		reached    bool
		stops, all bool
		want       int
	}{
		{"GPU code is linked", true, false, false, 1}, {"all", true, false, true, 2}, {"none is linked", false, false, false, 2}, {"it stops", false, true, false, 1},
	} {
		j := Judged{Session: s, Reach: &features.Reach{Stops: tt.stops, Roots: []features.Root{{Reached: tt.reached}}, Findings: []features.Finding{note, long}}}
		if got := j.Shown(tt.all); len(got) != tt.want {
			t.Errorf("%s: %d findings", tt.story, len(got))
		}
	}
	j := Judged{Session: s, Reach: &features.Reach{Findings: []features.Finding{long, fault(features.Error, m, "a", "b"), fault(features.Error, "/other", "a", "b", "c")}}}
	got := j.Findings()
	if want := "a\nb\n# and more: `gpubuild features --fix --features=cuda` writes them"; got[0].Brief != want || got[1].Brief != "" || got[2].Brief != "" {
		t.Errorf("%q %q %q", got[0].Brief, got[1].Brief, got[2].Brief)
	}
}

// TestSummary: the findings of all questions, each once, and whether any stops.
func TestSummary(t *testing.T) {
	t.Parallel()
	s, _ := open(t, "build", "", "")
	m := s.Project.Selected.Manifest
	c := Checked{Session: s, Questions: []*Question{{findings: []features.Finding{fault(features.Error, m, "a"), fault(features.Note, m, "n")}},
		{findings: []features.Finding{fault(features.Error, m, "a")}}, {Stops: true}, {}}}
	if list, stops := c.Summary(false); len(list) != 1 || !stops {
		t.Errorf("%+v %v", list, stops)
	}
	if list, _ := c.Summary(true); len(list) != 2 {
		t.Errorf("with notes: %+v", list)
	}
	if _, stops := (Checked{Session: s, Questions: c.Questions[:2]}).Summary(false); stops {
		t.Error("nothing stops")
	}
}

// TestNoteUnasked: that the answer is about the default features is said where no feature was asked for and something is built.
func TestNoteUnasked(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		words string
		via   string
		roots []features.Root
		want  string
	}{
		{"build", "unit graph", []features.Root{{Package: "app"}}, "this is the build with the default features\nhint: gpubuild features --features cuda\n"},
		{"build", "unit graph", []features.Root{{Package: "app", Asked: []string{"cuda"}}}, "this is the build with the default features\n"},
		{"build --no-default-features", "unit graph", []features.Root{{Package: "app", Asked: []string{"cuda"}}}, "this is the build with no features at all\n"},
		{"build --features cuda", "unit graph", []features.Root{{}}, ""}, {"build --all-features", "unit graph", []features.Root{{}}, ""},
		{"build", "unknown", nil, ""}, {"build", "unit graph", nil, "this command line builds no program and no library\n"},
		{"build -p lib", "unit graph", []features.Root{{Package: "lib"}}, "this is the build with the default features\nhint: gpubuild features -p lib --features rocm\n"},
		{"build --workspace", "unit graph", []features.Root{{Package: "app", Asked: []string{"cuda"}}, {Package: "lib"}}, "this is the build with the default features\nhint: gpubuild features -p lib --features rocm\n"},
	} {
		s, said := open(t, tt.words, "[features]\ncuda = []\n", "[features]\nrocm = []\n")
		j := Judged{Session: s, Reach: &features.Reach{Via: tt.via, Roots: tt.roots}, Facts: features.Facts{Input: features.Input{Request: s.Request()}}}
		j.NoteUnasked()
		if got := strings.ReplaceAll(said.String(), "\n\nhint", "\nhint"); !strings.HasSuffix(strings.ReplaceAll(got, "        ", ""), tt.want) || tt.want == "" && got != "" {
			t.Errorf("%s %s: %q, want %q", tt.words, tt.via, got, tt.want)
		}
	}
}

// TestUnhelpful: a fix helps only if every crate that it is about is on now, and the finding is gone.
func TestUnhelpful(t *testing.T) {
	t.Parallel()
	unit := func(name, version, kind string, on ...string) graph.Unit {
		return graph.Unit{PkgID: "registry+https://host.example/index#" + name + "@" + version, Target: graph.Target{Kind: []string{kind}}, Features: on}
	}
	f := fault(features.Error, "/m", "cuda")
	f.Lacks = []features.MissingFeature{{Crate: "core", Version: "1.0.0", Feature: "cuda"}, {Crate: "nn", Version: "1.0.0", Feature: "cuda"}}
	core, nn := unit("core", "1.0.0", "lib", "cuda"), unit("nn", "1.0.0", "lib", "cuda")
	for _, tt := range []struct {
		story string
		units []graph.Unit
		left  []features.Finding
		want  string
	}{
		{"all are on", []graph.Unit{core, nn}, nil, ""},
		{"one is off", []graph.Unit{core, unit("nn", "1.0.0", "lib")}, nil, "still off"},
		{"another version is on", []graph.Unit{core, unit("nn", "2.0.0", "lib", "cuda")}, nil, "still off"},
		{"it is on for a build script alone", []graph.Unit{core, unit("nn", "1.0.0", "custom-build", "cuda")}, nil, "still off"},
		{"no graph", nil, nil, "still off"},
		{"the finding is still there", []graph.Unit{core, nn}, []features.Finding{f}, "nothing has changed"},
		{"another finding is there", []graph.Unit{core, nn}, []features.Finding{fault(features.Error, "/m", "other")}, ""},
	} {
		now := Judged{Reach: &features.Reach{Findings: tt.left}}
		if tt.units != nil {
			now.Graph.Units = &graph.Graph{Units: tt.units}
		}
		if got := unhelpful(now, f); (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
			t.Errorf("%s: %q", tt.story, got)
		}
	}
}

// TestWrite: what is written into manifests, and what must not be; undo brings back what was there, Cargo.lock included.
func TestWrite(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		story string
		do    func(s *session.Session, path string) error // before it is written
		edits []edit.Edit
		dry   bool
		bad   string
		lock  string // that cargo writes meanwhile
		late  string // what undo says where somebody else has edited the file since
	}{
		{story: "an edge"}, {story: "dry", dry: true}, {story: "a new Cargo.lock", lock: "2"},
		{story: "read-only", do: func(_ *session.Session, path string) error { return os.Chmod(path, 0o444) }, bad: "is read-only"},
		{story: "changed meanwhile", do: func(_ *session.Session, path string) error { return os.WriteFile(path, []byte(pkg+"# mine\n"), 0o644) }, bad: "changed"},
		{story: "a link to elsewhere", do: func(s *session.Session, path string) error {
			to := filepath.Join(filepath.Dir(s.Project.Root), "elsewhere.toml")
			return errors.Join(os.Rename(path, to), os.Symlink(to, path))
		}, bad: "outside the workspace"},
		{story: "edited before it is undone", late: "it is left as it is; gpubuild's own change, which does not help, is still in it: [`cuda` now enables \"x/cuda\"]"},
		{story: "gone", do: func(_ *session.Session, path string) error { return os.Remove(path) }, bad: "no such file"},
	} {
		s, _ := open(t, "build", "[features]\ncuda = []\n", "")
		path := s.Project.Selected.Manifest
		before, err := os.ReadFile(path)
		if err == nil && tt.do != nil {
			err = tt.do(s, path)
		}
		if err != nil {
			t.Fatal(err)
		}
		f := NewFixer(s.Machine, FixOptions{DryRun: tt.dry})
		fix := Fix{Edits: []edit.Edit{{Manifest: path, Feature: "cuda", Add: []string{"x/cuda"}}}}
		undo, err := f.write(s, &fix)
		if tt.bad != "" {
			if err == nil || !strings.Contains(err.Error(), tt.bad) {
				t.Errorf("%s: %v", tt.story, err)
			}
			continue
		}
		now, _ := os.ReadFile(path)
		if err != nil || strings.Contains(string(now), `"x/cuda"`) == tt.dry {
			t.Errorf("%s: %v, it holds %s", tt.story, err, now)
		}
		if tt.lock != "" {
			hosttest.OK(t, os.WriteFile(s.Project.LockPath, []byte(tt.lock), 0o644))
		}
		if tt.late != "" {
			if hosttest.OK(t, os.WriteFile(path, append(now, "# mine\n"...), 0o644)); !strings.Contains(fmt.Sprint(undo()), tt.late) {
				t.Errorf("%s: %v", tt.story, undo())
			}
			continue
		}
		hosttest.Equal(t, undo(), nil, tt.story)
		if now, _ := os.ReadFile(path); !bytes.Equal(now, before) {
			t.Errorf("%s: undone, it holds %s", tt.story, now)
		}
		if _, err := os.Stat(s.Project.LockPath); err == nil {
			t.Errorf("%s: a Cargo.lock that was not there stays", tt.story)
		}
		if f.fixes = []Fix{fix}; tt.dry && !strings.Contains(f.Fixes()[0].Diff, "+++ b/Cargo.toml\n") {
			t.Errorf("%s: %q", tt.story, f.Fixes()[0].Diff)
		}
	}
}

// TestManifestFault: what cargo says of a manifest ends with another code than what it says of a network.
func TestManifestFault(t *testing.T) {
	t.Parallel()
	for said, want := range map[string]bool{
		"error: failed to parse manifest at `/w/Cargo.toml`": true, "error: failed to load manifest for workspace member": true, "error: cyclic package dependency": true,
		"error: package `app` does not have these features: x": true, "error: package `app` does not have that feature": true,
		"error: unknown key\n --> Cargo.toml:3:1": true, "error: failed to download": false, "error: no matching package named `x` found": false,
	} {
		hosttest.Equal(t, manifestFault.MatchString(said), want, said)
	}
}

// metadata is a cargo that knows the packages of a workspace.
type metadata struct{ s *session.Session }

func (m metadata) Run(_ context.Context, c buildenv.Cmd) (buildenv.Result, error) {
	type pkg map[string]any
	var list []pkg
	var ids []string
	for _, p := range m.s.Project.Members {
		id := "path+file://" + p.Dir + "#" + p.Name + "@1.0.0"
		ids = append(ids, id)
		list = append(list, pkg{"id": id, "name": p.Name, "version": "1.0.0", "manifest_path": p.Manifest, "dependencies": []any{}, "features": pkg{}, "targets": []any{}})
	}
	data, err := json.Marshal(pkg{"packages": list, "workspace_members": ids, "workspace_default_members": ids[:1], "workspace_root": m.s.Project.Root, "target_directory": "/t", "version": 1, "resolve": nil})
	return buildenv.Result{Stdout: data}, err
}

// TestFromManifests: each selected package is judged by itself; that none is selected is an error.
func TestFromManifests(t *testing.T) {
	t.Parallel()
	for words, want := range map[string]string{"build": "app", "build --workspace": "app lib", "build --workspace --exclude app --exclude lib": "", "build -p none": ""} {
		s, _ := open(t, words, "", "")
		path := filepath.Join(s.Project.Root, "cargo")
		hosttest.OK(t, os.WriteFile(path, nil, 0o755))
		m := *s.Machine
		m.Host.Env, m.Runner = m.Host.Env.Set("CARGO", path), metadata{s}
		list, err := FromManifests(t.Context(), &m, lineOf(t, words), nil)
		var got []string
		for _, j := range list {
			for _, r := range j.Reach.Roots {
				got = append(got, r.Package)
			}
		}
		if text := strings.Join(got, " "); text != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q %v, want %q", words, text, err, want)
		}
	}
}
