package app

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"sync"

	"gpubuild/buildenv/cache"
	"gpubuild/features"
	"gpubuild/toolchain/cargo"
)

// answersSchema changes whenever what is kept, or what is watched, changes its meaning.
const answersSchema = 3

// answers is what cargo said of a command line. It is kept in the cache with everything that cargo looked at for it, what was not there included; when
// none of that has changed, cargo is not asked again (a question costs as much as a build with nothing to do).
type answers struct {
	Schema  int          `json:"schema"`
	Sizes   [2]int       `json:"sizes"` // of what follows the line of JSON in the file: the graph and the tree
	Graph   []byte       `json:"-"`
	Tree    []byte       `json:"-"`
	Reason  string       `json:"reason,omitempty"`
	Stderr  []byte       `json:"stderr,omitempty"`
	Places  cargo.Places `json:"places"`
	Watched []watched    `json:"watched"`
	kept    bool         // from the cache
	parsed  *features.Graph
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

// encode makes what a file keeps: a line of JSON, then the graph without what nobody here reads (profiles, editions: more than half), then the tree.
func (a *answers) encode() ([]byte, error) {
	g, err := a.graph()
	if err != nil {
		return nil, err
	}
	var graph []byte
	if g != nil {
		if graph, err = json.Marshal(g); err != nil {
			return nil, err
		}
	}
	a.Sizes = [2]int{len(graph), len(a.Tree)}
	head, err := json.Marshal(a)
	if err != nil {
		return nil, err
	}
	return slices.Concat(head, []byte("\n"), graph, a.Tree), nil
}

// decodeAnswers reads what encode made; false for anything else.
func decodeAnswers(data []byte) (answers, bool) {
	var a answers
	head, rest, ok := bytes.Cut(data, []byte("\n"))
	if !ok || json.Unmarshal(head, &a) != nil || a.Schema != answersSchema || len(a.Watched) == 0 {
		return a, false
	}
	graph, tree := a.Sizes[0], a.Sizes[1]
	if graph < 0 || tree < 0 || graph > len(rest) || tree != len(rest)-graph {
		return a, false
	}
	a.Graph, a.Tree = rest[:graph:graph], rest[graph:]
	return a, true
}

// watched is one file or directory that an answer depends on. A directory is known by the names in it.
type watched struct {
	Path string `json:"path"`
	Is   string `json:"is"` // empty: it is not there
}

// look answers what a path is now: a file's identity, a directory's names, or nothing.
func (a *app) look(path string) string {
	fi, err := a.host.Files.Stat(path)
	switch {
	case err != nil:
		return ""
	case !fi.IsDir():
		id, err := cache.Identify(path)
		if err != nil {
			return ""
		}
		return fmt.Sprintf("%d %d %d %d", id.Size, id.MTime, id.Inode, id.Device)
	}
	entries, err := a.host.Files.ReadDir(path)
	if err != nil {
		return "unreadable"
	}
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, e.Name())
	}
	sort.Strings(names)
	sum := sha256.Sum256([]byte(strings.Join(names, "\x00")))
	return "dir " + hex.EncodeToString(sum[:12])
}

// questionKey names the question: the words, where they were said, and every variable that cargo, rustup or rustc read.
func (j *journey) questionKey(own bool) string {
	sum := sha256.New()
	fmt.Fprintln(sum, answersSchema, version(), j.tool.Path, j.tool.Dir, own)
	for _, w := range j.line.Words() {
		fmt.Fprintf(sum, "%q\n", w)
	}
	if rustc, err := j.host.LookPath("rustc"); err == nil { // another one may stand first on the same PATH
		fmt.Fprintf(sum, "%q\n", rustc)
	}
	for _, e := range j.tool.Env.Entries() {
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
func (j *journey) askCargo(ctx context.Context) error { return j.ask(ctx, false) }

// askOnly is askCargo for our own verbs: they never write a Cargo.lock.
func (j *journey) askOnly(ctx context.Context) error { return j.ask(ctx, true) }

func (j *journey) ask(ctx context.Context, own bool) error {
	kept := j.host.Join(j.cacheDir, "answers", j.questionKey(own)+".json")
	if j.readAnswers(kept) {
		return nil
	}
	private := cargo.Private{Root: j.host.Join(j.cacheDir, "cargo", short(sha256.Sum256([]byte(j.project.Root))))}
	q := cargo.Request{
		Line: j.line, Asking: cargo.Asking{Private: private, Colour: j.shell.Colour, NoLockWrite: own},
		Notice: func(s string) { j.shell.Note("cargo: %s", s) },
		Status: func(s string) { _, _ = io.WriteString(j.shell.Err, s) },
		Mkdir:  cache.Make,
	}
	if !own {
		// The build itself would write a missing lock file; so may the question.
		q.Asking.NoLockWrite = false
	}
	var (
		places    cargo.Places
		placesErr error
		wait      sync.WaitGroup
	)
	wait.Add(1)
	go func() {
		defer wait.Done()
		places, placesErr = cargo.Locate(ctx, j.host, j.run, j.tool, j.line)
	}()
	got, err := cargo.Graph(ctx, j.host, j.run, j.tool, q)
	wait.Wait()
	if err == nil {
		err = placesErr
	}
	if err != nil {
		return err
	}
	j.answers = answers{Schema: answersSchema, Graph: got.Graph, Tree: got.Tree, Reason: got.Reason, Stderr: got.Stderr, Places: places}
	return j.keepAnswers(kept)
}

// readAnswers takes the kept answers if nothing that they depend on has changed.
func (j *journey) readAnswers(kept string) bool {
	data, err := j.host.ReadFile(kept, 256<<20)
	if err != nil {
		return false
	}
	old, ok := decodeAnswers(data)
	if !ok {
		return false // a damaged answer is asked for anew
	}
	for _, w := range old.Watched {
		if j.look(w.Path) != w.Is {
			return false
		}
	}
	old.kept = true
	j.answers = old
	return true
}

// keepAnswers writes the answers down. That they cannot be kept costs time only, so it is told and no more.
func (j *journey) keepAnswers(kept string) error {
	paths, err := j.dependsOn()
	if err != nil {
		return err
	}
	for _, p := range paths {
		j.answers.Watched = append(j.answers.Watched, watched{p, j.look(p)})
	}
	data, err := j.answers.encode()
	if err != nil {
		return err
	}
	err = cache.Make(filepath.Dir(kept))
	if err == nil {
		err = cache.WriteFile(kept, data, 0o600)
		prune(filepath.Dir(kept), keptAnswers)
	}
	if err != nil {
		j.shell.Detail("cargo's answer is not kept: %v", err)
	}
	return nil
}

// dependsOn lists what cargo looked at: every local manifest, the directories in which targets and members are discovered, the lock file, the
// configuration and toolchain files of every directory above, and the programs themselves. Registry and git packages never change; the lock
// file names them.
func (j *journey) dependsOn() ([]string, error) {
	h, seen := j.host, map[string]bool{}
	add := func(paths ...string) {
		for _, p := range paths {
			seen[h.Clean(p)] = true
		}
	}
	local := func(manifest string) {
		dir := h.Dir(manifest)
		add(manifest, h.Join(dir, "build.rs"), h.Join(dir, "src", "main.rs"), h.Join(dir, "src", "lib.rs"))
		for up := dir; h.Dir(up) != up; up = h.Dir(up) {
			add(h.Join(h.Dir(up), h.Base(manifest))) // cargo looks upwards for the workspace that a package belongs to and inherits from
		}
		for _, d := range []string{h.Join("src", "bin"), "examples", "tests", "benches"} {
			add(h.Join(dir, d))
			entries, err := h.Files.ReadDir(h.Join(dir, d))
			if err != nil {
				continue
			}
			for _, e := range entries {
				if e.IsDir() {
					add(h.Join(dir, d, e.Name())) // src/bin/tool/main.rs
				}
			}
		}
	}
	local(j.project.RootManifest)
	local(j.project.Manifest)
	for _, list := range [][]*features.Package{j.project.Members, j.project.Locals} {
		for _, p := range list {
			local(p.Manifest)
		}
	}
	g, err := j.answers.graph()
	if err != nil {
		return nil, err
	}
	if g != nil {
		for _, u := range g.Units {
			if id := features.ParsePkgID(u.PkgID); id.Local() {
				local(h.Join(id.Dir(h), manifestName(j.project)))
			}
		}
	}
	add(j.project.LockPath)
	add(j.project.Globbed()...)
	for _, t := range j.line.Target {
		if strings.HasSuffix(t, ".json") { // a target of the user's own
			add(h.Abs(t))
		}
	}
	starts := []string{h.Cwd, h.Real(h.Cwd)}
	if j.line.Dir != "" {
		starts = append(starts, h.Abs(j.line.Dir), h.Real(h.Abs(j.line.Dir)))
	}
	for _, start := range starts {
		for dir := start; ; dir = h.Dir(dir) {
			add(h.Join(dir, ".cargo", "config.toml"), h.Join(dir, ".cargo", "config"), h.Join(dir, "rust-toolchain"), h.Join(dir, "rust-toolchain.toml"))
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
	add(h.Join(cargoHome, "config.toml"), h.Join(cargoHome, "config"), h.Join(rustupHome, "settings.toml"), h.Join(rustupHome, "toolchains"), j.tool.Path)
	if toolchains, err := h.Files.ReadDir(h.Join(rustupHome, "toolchains")); err == nil {
		for _, t := range toolchains { // rustup update changes them in place
			bin := h.Join(rustupHome, "toolchains", t.Name(), "bin")
			add(h.Join(bin, h.Exe("cargo")), h.Join(bin, h.Exe("rustc")))
		}
	}
	for _, c := range j.line.Config {
		if !strings.Contains(c, "=") {
			add(h.Abs(c))
		}
	}
	if rustc, err := h.LookPath("rustc"); err == nil {
		add(rustc)
	}
	out := make([]string, 0, len(seen))
	for p := range seen {
		out = append(out, p)
	}
	sort.Strings(out)
	return out, nil
}

// manifestName is what a manifest is called; only features knows the word.
func manifestName(p *features.Project) string { return filepath.Base(filepath.ToSlash(p.RootManifest)) }

func short(sum [sha256.Size]byte) string { return hex.EncodeToString(sum[:12]) }
