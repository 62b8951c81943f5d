package app

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"gpubuild/buildenv/cache"
	"gpubuild/features"
	"gpubuild/toolchain/cargo"
)

// answersSchema changes whenever what is kept, or what is watched, changes its meaning.
const answersSchema = 5

// answers is what cargo said of a command line. It is kept in the cache with everything that cargo looked at for it, what was not there included; when
// none of that has changed, cargo is not asked again (a question costs as much as a build with nothing to do).
type answers struct {
	Schema  int          `json:"schema"`
	Sizes   [3]int       `json:"sizes"` // of what follows the line of JSON in the file: lines of what is watched, bytes of the graph and of the tree
	Sum     uint32       `json:"sum"`   // of all of it: the file was not flushed to the disk
	Graph   []byte       `json:"-"`
	Tree    []byte       `json:"-"`
	Reason  string       `json:"reason,omitempty"`
	Stderr  []byte       `json:"stderr,omitempty"`
	Places  cargo.Places `json:"places"`
	Watched []watched    `json:"-"`
	parsed  *features.Graph
	packed  []byte // parsed as it is kept; nil: not made yet
}

// graph reads the unit graph once; nil where cargo gave none.
func (a *answers) graph() (*features.Graph, error) {
	if a.parsed == nil && len(a.Graph) > 0 {
		g, err := features.ParseGraph(bytes.NewReader(a.Graph))
		if err != nil {
			return nil, err
		}
		a.parsed = g
	}
	return a.parsed, nil
}

// pack makes what is kept of the unit graph: without what nobody here reads (profiles, editions: more than half).
func (a *answers) pack() error {
	g, err := a.graph()
	if err == nil && g != nil && a.packed == nil {
		a.packed, err = json.Marshal(g)
	}
	return err
}

// encode makes what a file keeps: a line of JSON, then what is watched, then the packed graph, then the tree.
func (a *answers) encode() ([]byte, error) {
	if err := a.pack(); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if !writeWatched(&b, a.Watched) {
		return nil, errors.New("a path has a line end in it")
	}
	b.Write(a.packed)
	b.Write(a.Tree)
	a.Sizes, a.Sum = [3]int{len(a.Watched), len(a.packed), len(a.Tree)}, crc32.ChecksumIEEE(b.Bytes())
	head, err := json.Marshal(a)
	if err != nil {
		return nil, err
	}
	return slices.Concat(head, []byte("\n"), b.Bytes()), nil
}

// decodeAnswers reads what encode made; false for anything else.
func decodeAnswers(data []byte) (answers, bool) {
	var a answers
	head, rest, ok := bytes.Cut(data, []byte("\n"))
	if !ok || json.Unmarshal(head, &a) != nil || a.Schema != answersSchema || a.Sizes[0] == 0 || a.Sum != crc32.ChecksumIEEE(rest) {
		return a, false
	}
	if a.Watched, rest, ok = readWatched(rest, a.Sizes[0]); !ok {
		return a, false
	}
	graph, tree := a.Sizes[1], a.Sizes[2]
	if graph < 0 || tree < 0 || graph > len(rest) || tree != len(rest)-graph {
		return a, false
	}
	a.Graph, a.Tree = rest[:graph:graph], rest[graph:]
	return a, true
}

// questionKey names the question: the words, where they were said, and every variable that cargo, rustup or rustc read.
func (j *journey) questionKey(own bool) string {
	sum := sha256.New()
	fmt.Fprintln(sum, answersSchema, version(), j.Tool.Path, j.Tool.Dir, own)
	for _, w := range j.Line.Words() {
		fmt.Fprintf(sum, "%q\n", w)
	}
	if rustc, err := j.Host.LookPath("rustc"); err == nil { // another one may stand first on the same PATH
		fmt.Fprintf(sum, "%q\n", rustc)
	}
	for _, e := range j.Tool.Env.Entries() {
		name, _, _ := strings.Cut(strings.ToUpper(e), "=")
		for _, prefix := range []string{"CARGO", "RUST", "HOME", "USERPROFILE", "PATH", "CC", "CFG_", "TARGET", "HOST"} {
			if strings.HasPrefix(name, prefix) {
				fmt.Fprintf(sum, "%q\n", e)
				break
			}
		}
	}
	return hex.EncodeToString(sum.Sum(nil)[:16])
}

// askCargo asks what will be built, and where.
func (j *journey) askCargo(ctx context.Context) error {
	if err := j.openIfNot(); err != nil {
		return err
	}
	return j.ask(ctx, false, true)
}

// askOnly is askCargo for our own verbs: they never write a Cargo.lock. Those that only speak of features need not know where cargo builds, which is a
// question of its own.
func (j *journey) askOnly(ctx context.Context, places bool) error { return j.ask(ctx, true, places) }

// openIfNot opens the project unless that was done.
func (j *journey) openIfNot() error {
	if j.Project != nil {
		return nil
	}
	return j.openProject()
}

// ask asks cargo, or takes its kept answer. The project is opened beside the question where it is not open yet: both take long in a large workspace. What
// is wrong with a manifest is then told in cargo's words.
func (j *journey) ask(ctx context.Context, own, places bool) error {
	kept := j.Host.Join(j.CacheDir, "answers", j.questionKey(own)+".json")
	if j.readAnswers(kept) {
		if err := j.openIfNot(); err != nil || !places || j.answers.Places.WorkspaceRoot != "" {
			return err
		}
		at, err := cargo.Locate(ctx, j.Host, j.Runner, j.Tool, j.Line)
		if err != nil {
			return err
		}
		j.answers.Places = at
		j.writeAnswers(kept)
		return nil
	}
	top, err := j.topManifest()
	if err != nil {
		return err
	}
	private := cargo.Private{Root: j.Host.Join(j.CacheDir, "cargo", hashName(top))}
	q := cargo.Request{
		Line: j.Line, Asking: cargo.Asking{Private: private, Colour: j.Shell.Colour, NoLockWrite: own}, // the build itself would write a missing lock file; so may the question
		Notice: func(s string) { j.Shell.Note("cargo: %s", s) },
		Status: func(s string) { _, _ = io.WriteString(j.Shell.Err, s) },
		Mkdir:  cache.Make,
	}
	var (
		at              cargo.Places
		atErr, manifest error
		wait            sync.WaitGroup
	)
	if places {
		wait.Add(1)
		go func() {
			defer wait.Done()
			at, atErr = cargo.Locate(ctx, j.Host, j.Runner, j.Tool, j.Line)
		}()
	}
	depends := j.newDependsOn()
	wait.Add(1)
	go func() {
		defer wait.Done()
		if manifest = j.openIfNot(); manifest == nil {
			depends.project() // looked at before cargo's answer is there: what changes while it is made is no part of it
		}
		_, _ = features.DefaultCatalog() // read once; judge has its error
	}()
	got, err := cargo.Graph(ctx, j.Host, j.Runner, j.Tool, q)
	wait.Wait()
	var bad *features.ManifestError
	var refused *cargo.RefusedError
	switch {
	case manifest != nil && !(errors.As(manifest, &bad) && errors.As(err, &refused)):
		return manifest
	case err != nil:
		return err
	case atErr != nil:
		return atErr
	}
	j.answers = answers{Schema: answersSchema, Graph: got.Graph, Tree: got.Tree, Reason: got.Reason, Stderr: got.Stderr, Places: at}
	return j.keepAnswers(kept, depends)
}

// topManifest answers the directory of the topmost manifest above the project, which stands for its workspace before any is read.
func (j *journey) topManifest() (string, error) {
	manifest, err := j.findManifest()
	if err != nil {
		return "", err
	}
	top := j.Host.Dir(manifest)
	name := j.Host.Base(manifest)
	for dir := top; ; dir = j.Host.Dir(dir) {
		if j.Host.IsFile(j.Host.Join(dir, name)) {
			top = dir
		}
		if j.Host.Dir(dir) == dir {
			return j.Host.Real(top), nil
		}
	}
}

// readAnswers takes the kept answers if nothing that they depend on has changed.
func (j *journey) readAnswers(kept string) bool {
	data, err := j.Host.ReadFile(kept, 256<<20)
	if err != nil {
		return false
	}
	old, ok := decodeAnswers(data)
	if !ok || !j.unchanged(old.Watched) {
		return false // a damaged answer is asked for anew, too
	}
	j.answers = old
	return true
}

// keepAnswers writes the answers down.
func (j *journey) keepAnswers(kept string, depends *dependsOn) error {
	if err := depends.graph(); err != nil {
		return err
	}
	j.answers.Watched = depends.list
	j.writeAnswers(kept)
	return nil
}

// writeAnswers writes a file of answers. That they cannot be kept costs time only, so it is told and no more.
func (j *journey) writeAnswers(kept string) {
	if err := j.answers.write(kept); err != nil {
		j.Shell.Detail("cargo's answer is not kept: %v", err)
	}
}

func (a *answers) write(kept string) error {
	data, err := a.encode()
	if err != nil {
		return err
	}
	if err := cache.Make(filepath.Dir(kept)); err != nil {
		return err
	}
	if err := cache.Keep(kept, data, 0o600); err != nil {
		return err
	}
	prune(filepath.Dir(kept), keptAnswers)
	return nil
}

// dependsOn lists what cargo looked at: every local manifest, the directories in which targets and members are discovered, the lock file, the
// configuration and toolchain files of every directory above, and the programs themselves. Registry and git packages never change; the lock
// file names them.
type dependsOn struct {
	*journey
	seen map[string]bool
	todo []string
	list []watched
}

func (j *journey) newDependsOn() *dependsOn { return &dependsOn{journey: j, seen: map[string]bool{}} }

func (d *dependsOn) add(paths ...string) {
	for _, p := range paths {
		if p = d.Host.Clean(p); !d.seen[p] {
			d.seen[p] = true
			d.todo = append(d.todo, p)
		}
	}
}

// look looks at what was added since the last time.
func (d *dependsOn) look() {
	d.list = append(d.list, d.watchAll(d.todo)...)
	d.todo = nil
}

func (d *dependsOn) local(manifest string) {
	h, dir := d.Host, d.Host.Dir(manifest)
	if d.seen[manifest] && d.seen[h.Join(dir, "build.rs")] {
		return
	}
	d.add(manifest, h.Join(dir, "build.rs"), h.Join(dir, "src", "main.rs"), h.Join(dir, "src", "lib.rs"))
	for up := h.Dir(dir); ; up = h.Dir(up) {
		at := h.Join(up, h.Base(manifest)) // cargo looks upwards for the workspace that a package belongs to and inherits from
		if d.seen[at] {
			break
		}
		d.add(at)
		if h.Dir(up) == up {
			break
		}
	}
	for _, name := range []string{h.Join("src", "bin"), "examples", "tests", "benches"} {
		sub := h.Join(dir, name)
		d.add(sub)
		if !h.IsDir(sub) {
			continue
		}
		entries, err := h.Files.ReadDir(sub)
		if err != nil {
			continue
		}
		for _, e := range entries {
			if e.IsDir() {
				d.add(h.Join(sub, e.Name())) // src/bin/tool/main.rs
			}
		}
	}
}

// project looks at what manifests, the command line and the machine tell.
func (d *dependsOn) project() {
	h, j := d.Host, d.journey
	d.local(j.Project.RootManifest)
	d.local(j.Project.Manifest)
	for _, list := range [][]*features.Package{j.Project.Members, j.Project.Locals} {
		for _, p := range list {
			d.local(p.Manifest)
		}
	}
	d.add(j.Project.LockPath)
	d.add(j.Project.Globbed()...)
	for _, t := range j.Line.Target {
		if strings.HasSuffix(t, ".json") { // a target of the user's own
			d.add(h.Abs(t))
		}
	}
	starts := []string{h.Cwd, h.Real(h.Cwd)}
	if j.Line.Dir != "" {
		starts = append(starts, h.Abs(j.Line.Dir), h.Real(h.Abs(j.Line.Dir)))
	}
	for _, start := range starts {
		for dir := start; ; dir = h.Dir(dir) {
			d.add(h.Join(dir, ".cargo", "config.toml"), h.Join(dir, ".cargo", "config"), h.Join(dir, "rust-toolchain"), h.Join(dir, "rust-toolchain.toml"))
			if h.Dir(dir) == dir {
				break
			}
		}
	}
	cargoHome, rustupHome := h.Env.Get("CARGO_HOME"), h.Env.Get("RUSTUP_HOME")
	if cargoHome == "" {
		cargoHome = h.Join(h.Home, ".cargo")
	}
	if rustupHome == "" {
		rustupHome = h.Join(h.Home, ".rustup")
	}
	d.add(h.Join(cargoHome, "config.toml"), h.Join(cargoHome, "config"), h.Join(rustupHome, "settings.toml"), h.Join(rustupHome, "toolchains"), j.Tool.Path)
	if toolchains, err := h.Files.ReadDir(h.Join(rustupHome, "toolchains")); err == nil {
		for _, t := range toolchains { // rustup update changes them in place
			bin := h.Join(rustupHome, "toolchains", t.Name(), "bin")
			d.add(h.Join(bin, h.Exe("cargo")), h.Join(bin, h.Exe("rustc")))
		}
	}
	for _, c := range j.Line.Config {
		if !strings.Contains(c, "=") {
			d.add(h.Abs(c))
		}
	}
	if rustc, err := h.LookPath("rustc"); err == nil {
		d.add(rustc)
	}
	d.look()
}

// graph adds the local packages that only cargo's answer names.
func (d *dependsOn) graph() error {
	g, err := d.answers.graph()
	if err != nil {
		return err
	}
	if g != nil {
		known := map[string]bool{}
		for i := range g.Units {
			pkg := g.Units[i].PkgID
			if known[pkg] {
				continue
			}
			known[pkg] = true
			if id := features.ParsePkgID(pkg); id.Local() {
				d.local(d.Host.Join(id.Dir(d.Host), features.ManifestName))
			}
		}
	}
	d.look()
	return nil
}

func short(sum [sha256.Size]byte) string { return hex.EncodeToString(sum[:12]) }
