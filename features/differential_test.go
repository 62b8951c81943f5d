package features

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"gpubuild/buildenv"
	"gpubuild/buildenv/hosttest"
	"gpubuild/buildenv/hosttest/need"
	"gpubuild/buildenv/local"
	"gpubuild/features/edit"
	"gpubuild/features/graph"
	"gpubuild/features/manifest"
)

// The differential test makes random workspaces and holds the quick look at manifests (GPUWork)
// against the unit graph of the real cargo: it may say yes where cargo links no CUDA, never no where it does. GPUBUILD_TEST=random=N says
// how many, seed=N where to begin (1).

// workspaceGen writes one random workspace. Package i depends on later ones only, so that nothing is a circle.
type workspaceGen struct {
	r     *rand.Rand
	names []string
	feats []map[string][]string
	macro []bool
	files map[string]string
}

const (
	diffCore = iota + 7 // indices of the GPU crates behind the seven packages
	diffNN
	diffKernels
	diffCudarc
	diffAll
)

func (g *workspaceGen) chance(n int) bool { return g.r.Intn(n) == 0 }

func generate(seed int64) (files map[string]string, members []string) {
	g := &workspaceGen{r: rand.New(rand.NewSource(seed)), files: map[string]string{}}
	g.names = []string{"top", "p1", "p2", "p3", "p4", "p5", "p6", "candle-nn", "candle-core", "candle-kernels", "cudarc"}
	g.macro = make([]bool, diffAll)
	g.feats = make([]map[string][]string, diffAll)
	for i := 2; i < 7; i++ {
		g.macro[i] = g.chance(7)
	}
	resolver := []string{"1", "2", "2", "3"}[g.r.Intn(4)]
	virtual := g.chance(2)
	outside := g.r.Intn(3) // packages from this many behind on lie outside the workspace
	dirOf := func(i int) string {
		switch {
		case i == 0 && !virtual:
			return "ws"
		case i >= 7 || i > 6-outside:
			return "out/" + g.names[i]
		}
		return "ws/" + g.names[i]
	}
	inherited := ""
	var shared []string // workspace.dependencies
	sharedAt := map[int]bool{}
	for i := diffAll - 1; i >= 0; i-- { // the last first: features of dependencies are known when they are named
		g.feats[i] = map[string][]string{}
		var tables []string
		switch {
		case i == 8: // candle-core
			g.feats[i] = map[string][]string{"cuda": {"dep:cudarc", "dep:candle-kernels"}, "cudnn": {"cuda"}, "default": {}}
			tables = append(
				tables,
				"[dependencies]\ncudarc = { path = \"../cudarc\", optional = true }\ncandle-kernels = { path = \"../candle-kernels\", optional = true }\n",
			)
		case i == 7:
			g.feats[i] = map[string][]string{"cuda": {"candle-core/cuda"}, "cudnn": {"candle-core/cudnn"}, "default": {}}
			tables = append(tables, "[dependencies]\ncandle-core = { path = \"../candle-core\" }\n")
		case i >= 9:
			g.feats[i] = map[string][]string{}
		default:
			tables = g.tables(i, dirOf, virtual, &shared, sharedAt)
		}
		edition := []string{"2021", "2021", "2018"}[g.r.Intn(3)]
		text := fmt.Sprintf("[package]\nname = \"%s\"\nversion = \"0.1.%d\"\nedition = \"%s\"\n", g.names[i], i, edition)
		if i == 0 && !virtual && g.chance(2) {
			said := map[string]string{"1": "2018", "2": "2021", "3": "2024"}[resolver]
			switch g.r.Intn(3) {
			case 0: // inherited
				text = strings.Replace(text, "edition = \""+edition+"\"", "edition.workspace = true", 1)
				inherited = "[workspace.package]\nedition = \"" + said + "\"\n"
			case 1: // the workspace's edition is not that of a package which does not inherit it
				text = strings.Replace(text, edition, said, 1)
				inherited = "[workspace.package]\nedition = \"2024\"\n"
				if resolver == "1" {
					text = strings.Replace(text, "edition = \""+said+"\"\n", "", 1)
				}
			default:
				text = strings.Replace(text, edition, said, 1)
			}
			resolver = "" // the edition says it
		}
		if g.macro[i] {
			text += "[lib]\nproc-macro = true\n"
		}
		text += "[features]\n"
		for _, f := range slices.Sorted(maps.Keys(g.feats[i])) {
			text += fmt.Sprintf("%s = [", edit.Key(f))
			for n, e := range g.feats[i][f] {
				if n > 0 {
					text += ", "
				}
				text += `"` + e + `"`
			}
			text += "]\n"
		}
		dir := dirOf(i)
		if dir != "ws" {
			g.files[dir+"/Cargo.toml"] = text + strings.Join(tables, "")
		} else {
			g.files["ws/package"] = text + strings.Join(tables, "")
		}
		g.files[dir+"/src/lib.rs"] = ""
		if i == 0 || g.chance(4) && i < 7 && !g.macro[i] {
			g.files[dir+"/src/main.rs"] = "fn main() {}\n"
		}
	}
	root := "[workspace]\nmembers = ["
	for i := 0; i < 7; i++ {
		if d := dirOf(i); strings.HasPrefix(d, "ws/") {
			root += `"` + g.names[i] + `", `
			members = append(members, d)
		}
	}
	root += "]\n"
	if resolver != "" {
		root += "resolver = \"" + resolver + "\"\n"
	}
	root += inherited
	if len(shared) > 0 {
		root += "[workspace.dependencies]\n" + strings.Join(shared, "")
	}
	if !virtual {
		members = append(members, "ws")
	}
	g.files["ws/Cargo.toml"] = g.files["ws/package"] + root
	delete(g.files, "ws/package")
	return g.files, members
}

// tables makes the dependency tables and the features of one package.
func (g *workspaceGen) tables(i int, dirOf func(int) string, virtual bool, shared *[]string, sharedAt map[int]bool) []string {
	feats := map[string][]string{"cuda": {}, "extra": {}}
	if g.chance(2) {
		feats["default"] = []string{}
		if g.chance(3) {
			feats["default"] = append(feats["default"], []string{"cuda", "extra"}[g.r.Intn(2)])
		}
	}
	if g.chance(3) {
		feats["cudnn"] = []string{}
		if g.chance(2) {
			feats["cudnn"] = append(feats["cudnn"], "cuda")
		}
	}
	if g.chance(4) {
		feats["extra"] = append(feats["extra"], "cuda")
	}
	names := []string{"cuda", "extra"}
	if _, ok := feats["cudnn"]; ok {
		names = append(names, "cudnn")
	}
	if _, ok := feats["default"]; ok && g.chance(3) {
		names = append(names, "default")
	}
	put := func(edge string) {
		f := names[g.r.Intn(len(names))]
		if g.chance(2) {
			f = "cuda"
		}
		if !slices.Contains(feats[f], edge) {
			feats[f] = append(feats[f], edge)
		}
	}
	tables := map[string]string{}
	for to := i + 1; to < diffAll; to++ {
		near := to < 7 && g.chance(3) || to == 8 && g.chance(2) || to == 7 && g.chance(4) || to == 10 && g.chance(12)
		if !near {
			continue
		}
		key := g.names[to]
		body := ""
		if g.chance(6) {
			key = "r" + strconv.Itoa(to)
			body = fmt.Sprintf("package = \"%s\", ", g.names[to])
		}
		kind := "dependencies"
		target := ""
		switch g.r.Intn(9) {
		case 0:
			kind = "build-dependencies"
		case 1:
			kind = "dev-dependencies"
		case 2:
			target = []string{"cfg(windows)", "cfg(unix)", `cfg(all(unix, not(target_os = "macos")))`, `cfg(target_arch = "x86_64")`, "x86_64-pc-windows-msvc"}[g.r.Intn(5)]
		}
		optional := kind != "dev-dependencies" && g.chance(3)
		var named []string
		for _, f := range slices.Sorted(maps.Keys(g.feats[to])) {
			if f != "default" && g.chance(6) {
				named = append(named, `"`+f+`"`)
			}
		}
		inherited := key == g.names[to] && strings.HasPrefix(dirOf(i), "ws") && g.chance(4)
		switch {
		case inherited:
			if !sharedAt[to] {
				sharedAt[to] = true
				rel := "../" + dirOf(to)
				off := ""
				if g.chance(2) {
					off = ", default-features = false"
				}
				*shared = append(*shared, fmt.Sprintf("%s = { path = \"%s\"%s }\n", key, rel, off))
			}
			body += "workspace = true"
		default:
			up := "../../"
			if dirOf(i) == "ws" {
				up = "../"
			}
			body += fmt.Sprintf("path = \"%s%s\"", up, dirOf(to))
			if g.chance(4) {
				body += ", default-features = false"
			}
		}
		if optional {
			body += ", optional = true"
		}
		if len(named) > 0 {
			body += ", features = [" + strings.Join(named, ", ") + "]"
		}
		head := "[" + kind + "]\n"
		if target != "" {
			head = "[target.'" + target + "'." + kind + "]\n"
		}
		tables[head] += key + " = { " + body + " }\n"
		if kind == "dev-dependencies" {
			continue
		}
		if optional {
			switch g.r.Intn(3) {
			case 0:
				put("dep:" + key)
			case 1:
				put(key)
			case 2: // a feature of the same name, declared
				feats[key] = []string{"dep:" + key}
				if g.chance(2) {
					feats[key] = append(feats[key], "extra")
				}
				if g.chance(2) {
					put(key)
				}
			}
		}
		theirs := slices.Sorted(maps.Keys(g.feats[to]))
		for n := g.r.Intn(3); n > 0 && len(theirs) > 0; n-- {
			f := theirs[g.r.Intn(len(theirs))]
			if slices.Contains(theirs, "cuda") && g.chance(2) {
				f = "cuda"
			}
			mark := "/"
			if optional && g.chance(2) {
				mark = "?/"
			}
			put(key + mark + f)
		}
	}
	g.feats[i] = feats
	var out []string
	for _, h := range slices.Sorted(maps.Keys(tables)) {
		out = append(out, h+tables[h])
	}
	return out
}

func TestGPUWorkAgainstCargo(t *testing.T) {
	cargo := need.Tool(t, "cargo")
	count, first := need.Count(t, "random", map[bool]int{true: 20, false: 10}[need.Has("long")]), int64(need.Count(t, "seed", 1))
	base := hosttest.Must(filepath.EvalSymlinks(t.TempDir()))(t)
	var mu sync.Mutex
	tally := map[string]int{}
	note := func(what string) {
		mu.Lock()
		tally[what]++
		mu.Unlock()
	}
	seeds := make(chan int64)
	var wait sync.WaitGroup
	for w := 0; w < 2; w++ {
		wait.Add(1)
		go func() {
			defer wait.Done()
			for seed := range seeds {
				oneWorkspace(t, cargo, base, seed, note)
			}
		}()
	}
	for n := 0; n < count && !t.Failed(); n++ {
		seeds <- first + int64(n)
	}
	close(seeds)
	wait.Wait()
	t.Logf("%d workspaces: %v", count, tally)
	if count >= 200 && (tally["yes, CUDA is linked"] < count/4 || tally["no, none is"] == 0 || tally["refused"] > count/10 || tally["closures compared"] < count/10) {
		t.Errorf("the generator or the reader has lost its grip: %v", tally)
	}
}

// oneWorkspace asks one question of one random workspace twice.
func oneWorkspace(t *testing.T, cargo, base string, seed int64, note func(string)) {
	files, members := generate(seed)
	dir := filepath.Join(base, strconv.FormatInt(seed, 10))
	defer os.RemoveAll(dir)
	var archive txtar.Archive
	for p, text := range files {
		archive.Files = append(archive.Files, txtar.File{Name: p, Data: []byte(text)})
	}
	if err := txtar.Write(&archive, dir); err != nil {
		t.Error(err)
		return
	}
	r := rand.New(rand.NewSource(seed * 7919))
	at := filepath.Join(dir, filepath.FromSlash(members[r.Intn(len(members))]))
	req, targets := manifest.Request{}, []string(nil)
	switch r.Intn(6) {
	case 0:
		req.AllFeatures = true
	case 1:
	case 2:
		req.Features = []string{"cuda", "extra"}
	default:
		req.Features = []string{"cuda"}
	}
	req.NoDefault = r.Intn(4) == 0
	if r.Intn(10) == 0 {
		targets = []string{[]string{"x86_64-pc-windows-msvc", "aarch64-apple-darwin", "aarch64-unknown-linux-gnu"}[r.Intn(3)]}
	}
	name := func() string { // of a member
		words := strings.Split(members[r.Intn(len(members))], "/")
		if len(words) == 1 {
			return "top"
		}
		return words[1]
	}
	several := r.Intn(3)
	if several == 0 {
		if r.Intn(2) == 0 {
			at = filepath.Join(dir, "ws")
		}
		switch r.Intn(5) {
		case 0: // the default members of where we are
		case 1:
			req.Workspace = true
			if len(members) > 1 {
				req.Excludes = []string{name()}
			}
		case 2:
			req.Workspace = true
		case 3:
			req.Packages = []string{name(), name()}
		case 4:
			req.Packages = []string{"p*"}
		}
		if r.Intn(4) == 0 && !req.AllFeatures {
			req.Features = append(req.Features, name()+"/cuda")
		}
		if r.Intn(6) == 0 && !req.AllFeatures {
			req.Features = append(req.Features, "candle-core/cuda")
		}
	}
	args := []string{"build", "--unit-graph", "-Zunstable-options", "--offline"}
	for word, given := range map[string]bool{
		"--workspace": req.Workspace, "--all-features": req.AllFeatures, "--no-default-features": req.NoDefault,
	} {
		if given {
			args = append(args, word)
		}
	}
	for flag, list := range map[string][]string{
		"--features": req.Features, "-p": req.Packages, "--exclude": req.Excludes, "--target": targets,
	} {
		for _, v := range list {
			args = append(args, flag, v)
		}
	}
	h := hosttest.Must(local.Host())(t)
	p, err := manifest.Load(h, filepath.Join(at, "Cargo.toml"))
	if err != nil {
		t.Errorf("seed %d: %v", seed, err)
		return
	}
	data, said := askGraph(cargo, at, base, args)
	if data == nil {
		note("refused")
		if strings.Contains(said, "failed to parse") && !strings.Contains(said, "default-features") {
			t.Errorf("seed %d: the generator writes what cargo does not read: %s", seed, said)
		}
		return
	}
	g, err := graph.Parse(bytes.NewReader(data))
	if err != nil {
		t.Errorf("seed %d: %v", seed, err)
		return
	}
	meta, said := askGraph(cargo, at, base, []string{"metadata", "--format-version", "1", "--offline"})
	m, err := manifest.ParseMetadata(meta)
	if err != nil {
		t.Errorf("seed %d: %v %s", seed, err, said)
		return
	}
	known := p.With(m)
	sameReading(t, fmt.Sprintf("seed %d", seed), p, known)
	truth := judgeIn(h, Input{Project: known, Request: req, Graph: g})
	if several != 0 && slices.Contains(req.Features, "cuda") && len(req.Features) == 1 {
		without := slices.DeleteFunc(slices.Clone(args), func(w string) bool { return w == "--features" || w == "cuda" })
		if data, _ := askGraph(cargo, at, base, without); data != nil {
			closureAgainst(t, fmt.Sprintf("seed %d: %s, %v", seed, at, args), h, known, g, data, note)
		}
	}
	linked := false
	for _, root := range truth.Roots {
		linked = linked || root.Reached
	}
	switch work, why := looks(h, p, req); {
	case work && linked && truth.GPUWork():
		note("yes, CUDA is linked")
	case work && !linked && truth.GPUWork():
		note("yes, though none is")
	case linked:
		t.Errorf("seed %d: %s, %v: cargo links CUDA, and the quick look says %q", seed, at, args, why)
	default:
		note("no, none is")
	}
}

// sameReading holds what the look reads of the members' manifests against cargo's metadata.
func sameReading(t *testing.T, story string, read, known *manifest.Project) {
	text := func(p *manifest.Package) string {
		out := p.Name
		for _, f := range p.FeatureNames() {
			edges := p.Edges(f)
			out += fmt.Sprintf("\n%s %v", f, edges)
		}
		for _, d := range p.Dependencies {
			out += fmt.Sprintf("\n%s %s %s %s %s %v", d.Key, d.Package, d.Kind, d.Target, d.Path, d.Optional)
		}
		lines := strings.Split(out, "\n")
		slices.Sort(lines)
		return strings.Join(lines, "\n")
	}
	hosttest.Equal(t, len(read.Members), len(known.Members), story, "members, cargo has")
	for _, m := range read.Members {
		if other := known.Package(m.Manifest); other == nil || text(m) != text(other) {
			t.Errorf("%s: read as\n%s", story, text(m))
			if other != nil {
				t.Logf("cargo has\n%s", text(other))
			}
		}
	}
}

// askGraph asks cargo for a unit graph; nil where it refuses, with what it said.
func askGraph(cargo, at, base string, args []string) (data []byte, said string) {
	c := exec.Command(cargo, args...)
	c.Dir = at
	c.Env = append(os.Environ(), "RUSTC_BOOTSTRAP=1", "CARGO_NET_OFFLINE=true", "CARGO_TARGET_DIR="+filepath.Join(base, "target"),
		"CARGO_BUILD_BUILD_DIR="+filepath.Join(base, "target"))
	var stderr bytes.Buffer
	c.Stderr = &stderr
	data, err := c.Output()
	if err != nil {
		return nil, stderr.String()
	}
	return data, ""
}

// closureAgainst holds the closure of a feature's edges against cargo's two graphs, with the feature and without it: what differs in a root
// is in the closure, and what the closure turns on is on. Resolver 1 unifies build-dependencies, which no edge of the closure shows.
func closureAgainst(t *testing.T, story string, h buildenv.Host, p *manifest.Project, g *graph.Graph, without []byte, note func(string)) {
	other, err := graph.Parse(bytes.NewReader(without))
	if err != nil {
		t.Errorf("%s: %v", story, err)
		return
	}
	on := func(v *graph.View, r *graph.Root) map[string]bool {
		out := map[string]bool{}
		for _, i := range r.Linked {
			for _, f := range append([]string{""}, v.Nodes[i].Features...) {
				out[v.Nodes[i].ID+" "+f] = true
			}
		}
		return out
	}
	name := func(v *graph.View, r *graph.Root) string {
		u := &v.Graph.Units[r.Node]
		return v.Nodes[r.Node].ID + u.Target.Name + fmt.Sprint(u.Target.Kind)
	}
	root := hosttest.Must(h.ReadFile(p.RootManifest, buildenv.Manifest))(t)
	newer := bytes.Contains(root, []byte("resolver = \"2\"")) || bytes.Contains(root, []byte("resolver = \"3\""))
	with, less := graph.NewView(h, p, g), graph.NewView(h, p, other)
	for i := range with.Roots {
		r := &with.Roots[i]
		at := slices.IndexFunc(less.Roots, func(o graph.Root) bool { return name(less, &o) == name(with, r) })
		n := &with.Nodes[r.Node]
		if at < 0 || !newer || !slices.Contains(n.Features, "cuda") || slices.Contains(less.Nodes[less.Roots[at].Node].Features, "cuda") {
			continue
		}
		closure := map[string]bool{}
		for _, f := range with.Closure(r, graph.Feature{Node: r.Node, Name: "cuda"}).Features() {
			closure[with.Nodes[f.Node].ID+" "+f.Name] = true
			if m := with.Nodes[f.Node].Pkg; f.Name != "" && m.Declares(f.Name) && !slices.Contains(with.Nodes[f.Node].Features, f.Name) {
				t.Errorf("%s: the closure has %s/%s, which is off", story, m.Name, f.Name)
			}
		}
		before := on(less, &less.Roots[at])
		for what := range on(with, r) {
			if !before[what] && !closure[what] {
				t.Errorf("%s: %s is on by the feature, and not in its closure", story, what)
			}
		}
		note("closures compared")
	}
}
