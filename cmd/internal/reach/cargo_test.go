package reach

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/hosttest"
	"gpubuild/cmd/internal/session"
	"gpubuild/features"
	"gpubuild/features/edit"
	"gpubuild/features/manifest"
)

// resolver is a cargo for members with path-free dependencies on candle-core and candle-nn of a registry: it answers what the manifests on
// disk say now. Every feature of the two enables nothing else.
type resolver struct {
	s      *session.Session
	asked  *int   // unit graphs
	listed *int   // how often cargo listed the packages
	broken string // words with which it refuses every graph once a manifest was written
	stuck  bool   // the crates stay off, whatever is written
	relock bool   // it writes Cargo.lock
	old    bool   // it takes no other Cargo.lock than the workspace's
	deaf   string // words with which it refuses everything
	fails  error  // with which it cannot be asked for a graph
}

// crates are those of the registry with their features; engine depends on candle-core, and has no feature for it.
var crates = map[string][]string{"candle-core": {"cuda", "cudnn", "metal"}, "candle-nn": {"cuda", "metal"}, "engine": {}}

func (r resolver) Run(_ context.Context, c buildenv.Cmd) (buildenv.Result, error) {
	p, err := manifest.Load(r.s.Machine.Host, r.s.Project.Manifest)
	if err != nil {
		return buildenv.Result{}, err
	}
	for _, a := range c.Args {
		if path, is := strings.CutPrefix(a, "resolver.lockfile-path="); is && r.old {
			return refuse(c, "error: unknown `-Z` flag specified: lockfile-path")
		} else if is {
			p.LockPath = strings.Trim(path, `"`)
		}
	}
	_, unlocked := os.Stat(p.LockPath)
	asks := slices.Contains(c.Args, "--locked") || slices.Contains(c.Args, "--frozen")
	switch {
	case r.deaf != "":
		return refuse(c, r.deaf)
	case unlocked != nil && asks:
		return refuse(c, "error: cannot create the lock file "+p.LockPath+" because --locked was passed to prevent this")
	}
	if slices.Contains(c.Args, "--unit-graph") {
		if *r.asked++; r.fails != nil {
			return buildenv.Result{}, r.fails
		}
		if r.relock && !asks {
			if err := os.WriteFile(p.LockPath, []byte("version = 4 # new\n"), 0o644); err != nil {
				return buildenv.Result{}, err
			}
		}
		return r.graph(p, c)
	}
	*r.listed++
	type object map[string]any
	var list, nodes []object
	var ids []string
	for _, m := range p.Members {
		deps, to := []object{}, []object{}
		for _, d := range m.Dependencies {
			deps = append(deps, object{"name": d.Package, "req": "^" + d.Version, "optional": d.Optional, "uses_default_features": true, "features": d.Features})
			to = append(to, object{"name": strings.ReplaceAll(d.Key, "-", "_"), "pkg": crateID(d.Package), "dep_kinds": []object{{"kind": nil}}})
		}
		nodes = append(nodes, object{"id": memberID(m), "deps": to})
		ids = append(ids, memberID(m))
		list = append(list, object{"id": memberID(m), "name": m.Name, "version": "1.0.0", "manifest_path": m.Manifest, "dependencies": deps, "features": m.Features, "targets": []any{}})
	}
	alone := slices.Contains(c.Args, "--no-deps")
	for name, feats := range crates {
		if alone {
			break
		}
		all := map[string][]string{}
		for _, f := range feats {
			all[f] = []string{}
		}
		deps, to := []object{}, []object{}
		if name == "engine" {
			deps, to = []object{{"name": "candle-core", "req": "^0.11"}}, []object{{"name": "candle_core", "pkg": crateID("candle-core"), "dep_kinds": []object{{"kind": nil}}}}
		}
		nodes = append(nodes, object{"id": crateID(name), "deps": to})
		list = append(list, object{"id": crateID(name), "name": name, "version": "0.11.1", "manifest_path": "/r/" + name + "/Cargo.toml", "dependencies": deps, "features": all, "targets": []any{}})
	}
	data, err := json.Marshal(object{"packages": list, "workspace_members": ids, "workspace_default_members": ids[:1], "workspace_root": p.Root, "target_directory": "/t", "version": 1, "resolve": map[bool]object{false: {"nodes": nodes}}[alone]})
	return buildenv.Result{Stdout: data}, err
}

func memberID(m *manifest.Package) string { return "path+file://" + m.Dir + "#" + m.Name + "@1.0.0" }
func crateID(name string) string          { return "registry+https://host.example/index#" + name + "@0.11.1" }

func refuse(c buildenv.Cmd, text string) (buildenv.Result, error) {
	if c.Stderr != nil {
		if _, err := io.WriteString(c.Stderr, text+"\n"); err != nil {
			return buildenv.Result{}, err
		}
	}
	res := buildenv.Result{Code: 101, Stderr: []byte(text)}
	return res, &buildenv.ExitError{Cmd: c, Result: res}
}

// graph is the unit graph of one package: that of --manifest-path or -p, else the first member.
func (r resolver) graph(p *manifest.Project, c buildenv.Cmd) (buildenv.Result, error) {
	root, asked := p.Members[0], []string{}
	for i, a := range c.Args {
		name, value, joined := strings.Cut(a, "=")
		if !joined && i+1 < len(c.Args) {
			value = c.Args[i+1]
		}
		for _, m := range p.Members {
			if (name == "-p" || name == "--package") && m.Name == value || name == "--manifest-path" && m.Manifest == value {
				root = m
			}
		}
		if name == "--features" {
			asked = append(asked, strings.Split(value, ",")...)
		}
	}
	on, queue := map[string][]string{}, []string{}
	for _, f := range asked {
		if _, declared := root.Features[f]; !declared && !strings.Contains(f, "/") {
			return refuse(c, "error: the package '"+root.Name+"' does not contain this feature: "+f)
		}
		queue = append(queue, f)
	}
	for _, m := range p.Members { // cargo reads all manifests
		for _, f := range m.FeatureNames() { // in the order of their names, as cargo does
			for _, e := range m.Features[f] {
				if dep, feature, is := strings.Cut(strings.Replace(e, "?/", "/", 1), "/"); is && !slices.Contains(crates[dep], feature) {
					return refuse(c, "error: failed to parse manifest at `"+m.Manifest+"`\n\nCaused by:\n  feature `"+f+"` includes `"+e+"`")
				}
			}
		}
	}
	if r.broken != "" && !bytes.Equal(p.Text(p.Members[0].Manifest), r.s.Project.Text(p.Members[0].Manifest)) {
		return refuse(c, r.broken)
	}
	for ; len(queue) > 0; queue = queue[1:] {
		to, feature, is := strings.Cut(queue[0], "/")
		if !is {
			to, feature = root.Name, queue[0]
			queue = append(queue, root.Features[feature]...)
		}
		if !slices.Contains(on[to], feature) && !(r.stuck && is) {
			on[to] = append(on[to], feature)
		}
	}
	type object map[string]any
	units, deps := []object{nil}, []object{}
	for _, d := range root.Dependencies {
		deps = append(deps, object{"index": len(units), "extern_crate_name": strings.ReplaceAll(d.Key, "-", "_")})
		feats := append([]string{}, on[d.Package]...)
		lib := func(name string, feats []string, deps ...object) object {
			return object{"pkg_id": crateID(name), "mode": "build", "features": feats, "dependencies": deps, "target": object{"kind": []string{"lib"}, "name": "x", "src_path": "/r/" + name + "/src/lib.rs"}}
		}
		if d.Package == "engine" {
			units = append(units, lib("engine", feats, object{"index": len(units) + 1, "extern_crate_name": "candle_core"}), lib("candle-core", nil))
			continue
		}
		units = append(units, lib(d.Package, append(feats, d.Features...)))
	}
	units[0] = object{"pkg_id": memberID(root), "mode": "build", "features": append([]string{}, on[root.Name]...), "dependencies": deps, "target": object{"kind": []string{"bin"}, "name": root.Name, "src_path": filepath.Join(root.Dir, "src", "main.rs")}}
	data, err := json.Marshal(struct { // cargo begins with the version
		Version int      `json:"version"`
		Units   []object `json:"units"`
		Roots   []int    `json:"roots"`
	}{1, units, []int{0}})
	return buildenv.Result{Stdout: data}, err
}

// withCargo is a machine whose cargo is a resolver; app and lib are the manifests' ends.
func withCargo(t *testing.T, words, app, lib string, change func(*resolver)) (*session.Machine, *session.Session, *resolver, *bytes.Buffer) {
	t.Helper()
	s, said := open(t, words, app, lib)
	for name, text := range map[string]string{"cargo": "", "Cargo.lock": "version = 4\n"} {
		hosttest.OK(t, os.WriteFile(filepath.Join(s.Project.Root, name), []byte(text), 0o755))
	}
	m, r := *s.Machine, &resolver{s: s, asked: new(int), listed: new(int)}
	if change != nil {
		change(r)
	}
	m.Host.Env, m.Runner = m.Host.Env.Set("CARGO", filepath.Join(s.Project.Root, "cargo")), r
	return &m, s, r, said
}

func unlocked(r *resolver) { os.Remove(r.s.Project.LockPath) }

const (
	depends = "[dependencies]\ncandle-core = \"0.11\"\n"
	both    = depends + "candle-nn = \"0.11\"\n"
)

// cuda is a [features] table with one feature, and dependencies.
func cuda(edges, deps string) string { return "[features]\ncuda = [" + edges + "]\n" + deps }

// TestFix: which edges of a build are written, which are taken back, and what is said of the build afterwards.
func TestFix(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		story    string
		words    string // default: build --features cuda
		app, lib string
		change   func(*resolver)
		o        FixOptions
		want     string // outcomes
		app2     string // what app's manifest holds afterwards, a part
		stops    bool
		bad      string // of the error
		lock     string // what Cargo.lock holds afterwards; "-" none; default: as before
	}{
		{story: "one edge", app: cuda("", depends), want: Kept, app2: `cuda = ["candle-core/cuda"]`},
		{story: "edges of two crates", app: cuda("", both), want: Kept, app2: `cuda = ["candle-core/cuda", "candle-nn/cuda"]`},
		{story: "nothing is missing", app: cuda(`"candle-core/cuda"`, depends), app2: `cuda = ["candle-core/cuda"]`},
		{story: "nothing is asked for", words: "build", app: cuda("", depends), app2: `cuda = []`},
		{story: "dry", app: cuda("", depends), o: FixOptions{DryRun: true}, want: Planned, app2: "cuda = []", stops: true},
		{story: "cargo says that it does not help", app: cuda("", depends), change: func(r *resolver) { r.stuck = true }, want: Refused, app2: "cuda = []", stops: true},
		{story: "it does not help, and wrote Cargo.lock: that is taken back, too", app: cuda("", depends), change: func(r *resolver) { r.stuck, r.relock = true, true }, want: Refused, app2: "cuda = []", stops: true, lock: "version = 4\n"},
		{story: "nothing is missing, and cargo wrote Cargo.lock: that is taken back", app: cuda(`"candle-core/cuda"`, depends), change: func(r *resolver) { unlocked(r); r.relock = true }, app2: "/cuda", lock: "-"},
		{story: "the same of an old cargo", app: cuda(`"candle-core/cuda"`, depends), change: func(r *resolver) { unlocked(r); r.relock, r.old = true, true }, app2: "/cuda", lock: "-"},
		{story: "it helps, and wrote Cargo.lock", app: cuda("", depends), change: func(r *resolver) { unlocked(r); r.relock = true }, want: Kept, app2: "/cuda", lock: "version = 4 # new\n"},
		{story: "dry, without a Cargo.lock, which is not written", app: cuda("", depends), change: func(r *resolver) { unlocked(r); r.relock = true }, o: FixOptions{DryRun: true}, want: Planned, app2: "cuda = []", stops: true, lock: "-"},
		{story: "cargo does not take the new manifest", app: cuda("", depends), change: func(r *resolver) { r.broken = "error: no such thing" }, want: Refused, app2: "cuda = []", stops: true},
		{story: "a feature that nobody declares", app: "[features]\n" + depends, want: Kept, app2: `cuda = ["candle-core/cuda"]`},
		{story: "a feature that nobody declares, and that means no GPU", words: "build --features serde", app: "[features]\n" + depends, app2: "[features]\n[dep", bad: "serde"},
		{story: "a feature that nobody declares, where no Cargo.lock has the versions", app: "[features]\n" + depends, change: unlocked, want: Kept, app2: `cuda = ["candle-core/cuda"]`},
		{story: "one that means no GPU, where there is no Cargo.lock", words: "build --features serde", app: "[features]\n" + depends, change: unlocked, app2: "[features]\n[dep", bad: "serde"},
		{story: "an edge that cargo refuses", app: cuda(`"candle-core/cuad"`, depends), want: Kept, app2: `cuda = ["candle-core/cuda"]`},
		{story: "two of them: only together they help", app: "[features]\ncuda = [\"candle-core/cuad\"]\nfast = [\"candle-cor/cudnn\"]\n" + depends, want: Kept, app2: "cuda = [\"candle-core/cuda\"]\nfast = [\"candle-core/cudnn\"]"},
		{story: "one of a member that is not built", app: cuda(`"candle-core/cuda"`, depends), lib: cuda(`"candle-core/cuad"`, depends), want: Kept, app2: `cuda = ["candle-core/cuda"]`},
		{story: "a warning is fixed, too", app: cuda(`"candle-core/cuda"`, both), want: Kept, app2: `cuda = ["candle-core/cuda", "candle-nn/cuda"]`},
		{story: "what is for another system is not", words: "build --features metal", app: "[features]\nmetal = []\n" + depends, app2: "metal = []"},
	} {
		if tt.words == "" {
			tt.words = "build --features cuda"
		}
		m, s, r, said := withCargo(t, tt.words, tt.app, tt.lib, tt.change)
		f := NewFixer(m, tt.o)
		j, err := f.Fix(t.Context(), lineOf(t, tt.words))
		if (err == nil) != (tt.bad == "") || err != nil && !strings.Contains(err.Error(), tt.bad) {
			t.Errorf("%s: %v\n%s", tt.story, err, said)
		}
		var got []string
		for _, fix := range f.Fixes() {
			if got = append(got, fix.Outcome); (fix.Outcome == Refused) != (fix.Why != "") || (fix.Diff != "") != tt.o.DryRun {
				t.Errorf("%s: %+v", tt.story, fix)
			}
		}
		lock, err2 := os.ReadFile(s.Project.LockPath)
		if want := cmp.Or(tt.lock, "version = 4\n"); tt.change == nil && string(lock) != want || tt.lock != "" && (string(lock) != tt.lock || err2 != nil) && !(tt.lock == "-" && err2 != nil) {
			t.Errorf("%s: Cargo.lock holds %q", tt.story, lock)
		}
		now, _ := os.ReadFile(s.Project.Selected.Manifest)
		if text := strings.Join(got, " "); text != tt.want || !strings.Contains(string(now), tt.app2) {
			t.Errorf("%s: %q, want %q; it holds\n%s\n%s", tt.story, text, tt.want, now, said)
		}
		if err == nil && j.Reach.Stops != tt.stops {
			t.Errorf("%s: stops %v: %+v", tt.story, j.Reach.Stops, j.Reach.Findings)
		}
		hosttest.Equal(t, strings.Contains(said.String(), "Updated"), strings.Contains(tt.want, Kept), tt.story, said)
		if *r.asked == 0 {
			t.Errorf("%s: cargo was not asked", tt.story)
		}
	}
}

// TestLint: which features of which members are at fault, by manifests and by cargo, and what is left open.
func TestLint(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		story    string
		words    string
		app, lib string
		asks     bool
		strict   bool
		want     string // PACKAGE/FEATURE BY, and ! where it stops
		suspects int
		refused  bool
		graphs   int // cargo was asked for
	}{
		{story: "all is well, by manifests", app: cuda(`"candle-core/cuda"`, depends), want: "app/cuda manifests"},
		{story: "all is well: cargo is not asked", app: cuda(`"candle-core/cuda"`, depends), asks: true, want: "app/cuda manifests"},
		{story: "a fault, by manifests", app: cuda("", depends), want: "app/cuda manifests!", suspects: 1},
		{story: "a fault, which cargo confirms", app: cuda("", depends), asks: true, want: "app/cuda unit graph!", suspects: 1, graphs: 1},
		{story: "of one of two members", app: cuda(`"candle-core/cuda"`, depends), lib: cuda("", depends), asks: true, want: "app/cuda manifests lib/cuda unit graph!", suspects: 1, graphs: 1},
		{story: "of the member that is asked about", words: "build -p app", app: cuda(`"candle-core/cuda"`, depends), lib: cuda("", depends), asks: true, want: "app/cuda manifests"},
		{story: "a warning", app: cuda(`"candle-core/cuda"`, both), want: "app/cuda manifests", suspects: 1},
		{story: "a warning where these stop", app: cuda(`"candle-core/cuda"`, both), strict: true, want: "app/cuda manifests!", suspects: 1},
		{story: "an edge that cargo refuses", app: cuda(`"candle-core/cuad"`, depends), want: "app/cuda manifests!", suspects: 1},
		{story: "an edge that cargo refuses, which is asked", app: cuda(`"candle-core/cuad"`, depends), asks: true, want: "app/cuda manifests!", suspects: 1, graphs: 1},
		{story: "no feature means a GPU", app: "[features]\nserde = []\n", asks: true, want: ""},
	} {
		if tt.words == "" {
			tt.words = "build"
		}
		m, _, r, said := withCargo(t, tt.words, tt.app, tt.lib, nil)
		c, err := Lint(t.Context(), m, lineOf(t, tt.words), tt.strict, tt.asks)
		if err != nil {
			t.Errorf("%s: %v\n%s", tt.story, err, said)
			continue
		}
		var got []string
		for _, q := range c.Questions {
			got = append(got, q.Package+"/"+q.Feature+" "+q.By+map[bool]string{true: "!"}[q.Stops])
		}
		if text := strings.Join(got, " "); text != tt.want || len(c.Suspects) != tt.suspects || (c.Refused != "") != tt.refused || *r.asked != tt.graphs || *r.listed != 1 {
			t.Errorf("%s: %q, %d suspects, refused %q, %d graphs; want %q", tt.story, text, len(c.Suspects), c.Refused, *r.asked, tt.want)
		}
		if _, stops := c.Summary(false); stops != strings.Contains(tt.want, "!") {
			t.Errorf("%s: stops %v", tt.story, stops)
		}
	}
}

// TestLintOfBroken: where cargo cannot load the workspace, what manifests show stands; without that its words are the error.
func TestLintOfBroken(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		app  string
		asks bool
		want string // PACKAGE/FEATURE, and ! where it stops; or the error
	}{
		{cuda(`"candle-core/cuda"`, depends), true, "error 30: no such thing"}, {cuda(`"candle-core/cuda"`, depends), false, "app/cuda"}, {cuda(`"candle-cor/cuda"`, depends), true, "app/cuda!"},
		{cuda(`"candle-cor/cuda"`, depends), false, "app/cuda!"}, {cuda(`"candle-core/cuad"`, depends), false, "app/cuda"},
	} {
		m, _, _, _ := withCargo(t, "build", tt.app, "", func(r *resolver) { r.deaf = "error: no such thing" })
		c, err := Lint(t.Context(), m, lineOf(t, "build"), false, tt.asks)
		got := ""
		if err != nil {
			got = fmt.Sprintf("error %d: %v", exit.Of(err), err)
		}
		for _, q := range c.Questions {
			if err == nil {
				got += q.Package + "/" + q.Feature + map[bool]string{true: "!"}[q.Stops]
			}
		}
		if got != tt.want || err == nil && c.Refused != "no such thing" {
			t.Errorf("%s asks %v: %q, refused %q, want %q", tt.app, tt.asks, got, c.Refused, tt.want)
		}
	}
}

// TestDryFixesOfOneManifest: a dry run has one diff with all lines of a manifest.
func TestDryFixesOfOneManifest(t *testing.T) {
	t.Parallel()
	m, s, _, _ := withCargo(t, "build", "[features]\ncuda = []\nuse-cuda = []\n"+depends, "", nil)
	list := hosttest.Must(questions(s))(t)
	f := NewFixer(m, FixOptions{DryRun: true})
	hosttest.OK(t, f.FixEach(t.Context(), lineOf(t, "build"), list))
	fixes := f.Fixes()
	if len(fixes) != 2 || fixes[1].Diff != "" || strings.Count(fixes[0].Diff, "\n+++ ") != 1 || !strings.Contains(fixes[0].Diff, "\n+cuda = [\"candle-core/cuda\"]\n+use-cuda = [\"candle-core/cuda\"]\n") {
		t.Errorf("%+v", fixes)
	}
}

// TestFixEach: the features of members are fixed each by itself; with several selected ones, after the build that has them together.
func TestFixEach(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		words string
		want  string // which manifests have the edge
		dry   bool
	}{{"build --features cuda", "app", false}, {"build --workspace --features cuda", "app lib", false}, {"build --workspace --features cuda", "", true}} {
		m, s, _, said := withCargo(t, tt.words, cuda("", depends), cuda("", depends), nil)
		f := NewFixer(m, FixOptions{DryRun: tt.dry})
		j, err := FixMembers(t.Context(), f, lineOf(t, tt.words))
		if err != nil || j.Reach == nil || j.Reach.Stops != tt.dry {
			t.Errorf("%s: %v\n%s", tt.words, err, said)
		}
		var got []string
		for _, p := range s.Project.Members {
			if text, _ := os.ReadFile(p.Manifest); strings.Contains(string(text), `"candle-core/cuda"`) {
				got = append(got, p.Name)
			}
		}
		hosttest.Equal(t, strings.Join(got, " "), tt.want, tt.words)
		if planned := len(f.Fixes()); tt.dry && planned != 2 {
			t.Errorf("%s: %d planned", tt.words, planned)
		}
	}
}

// TestOpen: a build is judged by cargo's answer; where cargo refuses it, its words and what corrects them.
func TestOpen(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		story, words string
		app          string
		o            Options
		fix          string // of the first finding, or of the error
		warns        bool   // it does not stop
		code         int    // of the error; 0: none
	}{
		{story: "all is well", app: cuda(`"candle-core/cuda"`, depends)},
		{story: "an edge is missing", app: cuda("", depends), fix: `cuda = ["candle-core/cuda"]`},
		{story: "a feature to ask for becomes a command", words: "build --release --features candle-core/cuda", app: both, fix: "gpubuild build --features candle-core/cuda,candle-nn/cuda --release", warns: true},
		{story: "a package of others does not forward it: that shows which", app: cuda("", "[dependencies]\nengine = \"0.11\"\n"), fix: "cargo tree -e features -i candle-core@0.11.1 --features=cuda"},
		{story: "a manifest that cargo cannot read", app: cuda(`"candle-core/cuad"`, depends), fix: "gpubuild features --fix --features=cuda\n      writes cuda = [\"candle-core/cuda\"]", code: exit.Config},
		{story: "the same for a verb that shows edges", app: cuda(`"candle-core/cuad"`, depends), o: Options{Edges: true}, fix: `cuda = ["candle-core/cuda"]`},
		{story: "a feature that is not declared", app: "[features]\n" + depends, fix: "gpubuild features --fix --features=cuda\n      writes cuda = [\"candle-core/cuda\"]", code: 101},
		{story: "one that means no GPU", words: "build --features serde", app: "[features]\n" + depends, code: 101},
		{story: "not declared, for a verb that shows edges", app: "[features]\n" + depends, o: Options{Edges: true}, fix: "gpubuild features --fix --features=cuda\n      writes cuda = [\"candle-core/cuda\"]", code: 101},
	} {
		if tt.words == "" {
			tt.words = "build --features cuda"
		}
		m, _, _, _ := withCargo(t, tt.words, tt.app, "", nil)
		j, err := Open(t.Context(), m, lineOf(t, tt.words), tt.o)
		code, fix := exit.Of(err), exit.Hint(err)
		if err == nil && len(j.Reach.Findings) > 0 {
			fix = j.Reach.Findings[0].Fix
		}
		if code != tt.code || fix != tt.fix {
			t.Errorf("%s: %d %q (%v), want %d %q", tt.story, code, fix, err, tt.code, tt.fix)
		}
		if err == nil && (j.Reach.Stops != (tt.fix != "" && !tt.warns) || tt.o.Edges && j.Reach.Findings[0].ID != features.IDRefused) {
			t.Errorf("%s: stops %v: %+v", tt.story, j.Reach.Stops, j.Reach.Findings)
		}
	}
}

// TestErrorsStop: without a cargo, a project or an answer there is an error, and no manifest is written.
func TestErrorsStop(t *testing.T) {
	t.Parallel()
	const words = "build --workspace --features cuda"
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	ctx := t.Context()
	calls := map[string]func(*session.Machine) error{
		"open": func(m *session.Machine) error {
			_, err := Open(ctx, m, lineOf(t, words), Options{})
			return err
		},
		"lint": func(m *session.Machine) error {
			_, err := Lint(ctx, m, lineOf(t, words), false, true)
			return err
		},
		"fix": func(m *session.Machine) error {
			_, err := NewFixer(m, FixOptions{}).Fix(ctx, lineOf(t, words))
			return err
		},
		"fix members": func(m *session.Machine) error {
			_, err := FixMembers(ctx, NewFixer(m, FixOptions{}), lineOf(t, words))
			return err
		},
		"manifests": func(m *session.Machine) error {
			_, err := FromManifests(ctx, m, lineOf(t, words), nil)
			return err
		},
	}
	for why, change := range map[string]func(m *session.Machine, r *resolver, root string){
		"no cargo": func(m *session.Machine, _ *resolver, root string) {
			m.Host.Env = m.Host.Env.Set("CARGO", root+"/none").Set("PATH", "")
		},
		"no project": func(m *session.Machine, _ *resolver, root string) { m.Host.Cwd = filepath.Dir(filepath.Dir(root)) },
		"a broken gpubuild.toml": func(_ *session.Machine, _ *resolver, root string) {
			os.WriteFile(root+"/gpubuild.toml", []byte("["), 0o644)
		},
		"an interrupt":              func(*session.Machine, *resolver, string) { ctx = gone },
		"a cargo that cannot start": func(_ *session.Machine, r *resolver, _ string) { r.fails = errors.New("no such program") },
	} {
		for name, call := range calls {
			ctx = t.Context()
			m, s, r, said := withCargo(t, words, cuda("", depends), cuda("", depends), nil)
			change(m, r, s.Project.Root)
			err := call(m)
			answers := name == "manifests" && r.fails != nil || ctx == gone && (name == "manifests" || name == "open") // this cargo ends at once
			hosttest.Equal(t, (err == nil), answers, name, why, err, said)
			if now, _ := os.ReadFile(s.Project.Selected.Manifest); strings.Contains(string(now), "/cuda") {
				t.Errorf("%s, %s: written all the same", name, why)
			}
		}
	}
}

// TestNotWritten: edits that are not as they were judged, or of a manifest that is no member's, change nothing.
func TestNotWritten(t *testing.T) {
	t.Parallel()
	s, _ := open(t, "build", cuda("", ""), "")
	path, stranger := s.Project.Selected.Manifest, filepath.Join(s.Project.Root, "stranger", "Cargo.toml")
	hosttest.OK(t, errors.Join(os.Mkdir(filepath.Dir(stranger), 0o755), os.WriteFile(stranger, []byte(pkg), 0o644)))
	good := edit.Edit{Manifest: path, Feature: "cuda", Add: []string{"x/cuda"}}
	for _, tt := range []struct{ bad, why string }{{path, "is not in it"}, {stranger, "no member"}} {
		second := edit.Edit{Manifest: tt.bad, Feature: "cuda", Add: []string{"y/cuda"}}
		if tt.bad == path {
			second.Instead = "none"
		}
		before, _ := os.ReadFile(path)
		_, err := NewFixer(s.Machine, FixOptions{}).write(s, &Fix{Edits: []edit.Edit{good, second}})
		if now, _ := os.ReadFile(path); err == nil || !strings.Contains(err.Error(), tt.why) || !bytes.Equal(now, before) {
			t.Errorf("%s: %v, it holds %s", tt.why, err, now)
		}
	}
}
