package nvcc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gpubuild/buildenv"
	"gpubuild/buildenv/lazyregexp"
	"gpubuild/buildenv/local"
	"gpubuild/buildenv/proc"
)

const (
	// Variable is on, off or read: whether kernels come from the cache, and whether it is written.
	Variable = "GPUBUILD_GPU_CACHE"
	// LogVariable names the file in which the calls of one build note what they did.
	LogVariable = "GPUBUILD_GPU_CACHE_LOG"
)

// Named says whether a program was started under the name nvcc.
func Named(program string) bool {
	base := filepath.Base(program)
	return base == "nvcc" || strings.EqualFold(base, "nvcc.exe")
}

// Main answers as nvcc.
func Main(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	host, err := local.Host()
	if err != nil {
		fmt.Fprintln(stderr, "nvcc:", err)
		return 1
	}
	self, err := proc.Self()
	var view view
	if err == nil {
		view, err = readView(self)
	}
	if err != nil {
		fmt.Fprintln(stderr, "nvcc (gpubuild):", err)
		return 1
	}
	env := host.Env
	asked := parse(args, env.Get("NVCC_PREPEND_FLAGS"), env.Get("NVCC_APPEND_FLAGS"))
	if view.Release != "" {
		s := standIn{call: asked, host: host, runner: proc.Runner{}, root: filepath.Dir(filepath.Dir(self)), stdout: stdout, stderr: stderr}
		s.major, s.minor, _ = strings.Cut(view.Release, ".")
		return s.main(ctx, args)
	}
	r := run{
		call: asked, host: host, env: env.Entries(), runner: proc.Runner{}, real: view.NVCC, args: args,
		store: store{dir: filepath.Join(view.Cache, Kernels), readOnly: env.Get(Variable) == "read"},
	}
	if view.Launcher != "" {
		r.list(r.ask(ctx))
		path := slices.DeleteFunc(host.SplitList(env.Get("PATH")), func(dir string) bool { return host.SamePath(dir, filepath.Dir(self)) })
		r.real, r.env = view.Launcher, env.Set("PATH", host.JoinList(path...)).Entries() // it may look for nvcc itself
		return r.plain(ctx, stdin, stdout, stderr)
	}
	if mode := env.Get(Variable); mode != "on" && mode != "read" || host.OS == buildenv.Windows {
		return r.plain(ctx, stdin, stdout, stderr)
	}
	r.host.Env = env.Unset("LD_LIBRARY_PATH") // cargo sets it for build scripts; what is cached is made without it
	what, code := r.cached(ctx, stdin, stdout, stderr)
	if what != "" && !strings.Contains(host.Cwd, "/CMakeFiles/") { // there CMake tries compilers
		note(env.Get(LogVariable), what+"\t"+strings.Join(args, " "))
	}
	return code
}

// note appends a line to the build's log: a short write to a file is not torn by another process.
func note(file, what string) {
	if file == "" {
		return
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return // the build is over
	}
	defer f.Close()
	_, _ = f.WriteString(strings.ReplaceAll(what, "\n", " ") + "\n") // counts only
}

// plain runs the real nvcc, as if it had been called itself.
func (r *run) plain(ctx context.Context, stdin io.Reader, stdout, stderr io.Writer) int {
	res, err := r.runner.Run(ctx, buildenv.Cmd{Path: r.real, Args: r.args, Env: r.env, Stdin: stdin, Stdout: stdout, Stderr: stderr})
	return status(res, err, stderr)
}

// status is the exit status of a program; why it was not started, or was interrupted, is written.
func status(res buildenv.Result, err error, stderr io.Writer) int {
	var exit *buildenv.ExitError
	if err != nil && !errors.As(err, &exit) {
		fmt.Fprintln(stderr, "nvcc:", err)
		return max(1, res.Code)
	}
	return res.Code
}

// cached answers from the cache, or runs nvcc and keeps what it left; what is for the log.
func (r *run) cached(ctx context.Context, stdin io.Reader, stdout, stderr io.Writer) (what string, code int) {
	began := time.Now()
	if r.unknown == "" {
		r.unknown = r.unusual()
	}
	if r.unknown != "" {
		if slices.Contains([]string{"o", "ptx", "cubin", "fatbin"}, r.mode) {
			what = "uncached " + r.unknown
		}
		r.list(r.ask(ctx))
		return what, r.plain(ctx, stdin, stdout, stderr)
	}
	hit := func(res result) bool {
		if r.write(res) != nil {
			return false
		}
		_, _ = stdout.Write(res.Stdout)
		_, _ = stderr.Write(res.Stderr)
		what = fmt.Sprintf("hit %d", max(0, res.Milliseconds-time.Since(began).Milliseconds()))
		return true
	}
	question := r.quick()
	if res, made, ok := r.store.find(question); ok && hit(res) {
		r.list(made.Files)
		return what, 0
	}
	tmp, err := os.MkdirTemp("", "gpubuild-nvcc-")
	if err == nil {
		defer os.RemoveAll(tmp)
		r.tmp, err = filepath.Abs(tmp)
	}
	var p *preprocessed
	if err == nil {
		p, err = r.preprocess(ctx)
	}
	if err != nil {
		r.list(r.ask(ctx))
		return "uncached " + err.Error(), r.plain(ctx, stdin, stdout, stderr)
	}
	key := p.key()
	made, found := r.recipe(p, began)
	r.list(made.Files)
	if res, err := r.store.result(key); err == nil && hit(res) {
		if found == settledDown && made.still() {
			_ = r.store.remember(question, made) // costs time only
		}
		return what, 0
	}
	res, code := r.compile(ctx, p, began, stdout, stderr)
	if code != 0 || res == nil || !r.unchanged(ctx, key, made, found) {
		return "miss", code
	}
	if r.store.keep(key, *res) == nil && found == settledDown {
		_ = r.store.remember(question, made) // costs time only
	}
	return "miss", code
}

// unchanged says whether nvcc compiled what was preprocessed. What was written just before, or where, may have been written again.
func (r *run) unchanged(ctx context.Context, key string, made recipe, found trust) bool {
	doubt := found == young
	for dir, sum := range made.Trees {
		is, _, err := r.store.tree(dir)
		doubt = doubt || err != nil || is != sum
	}
	if doubt {
		again, err := r.preprocess(ctx)
		if err != nil || again.key() != key {
			return false
		}
	}
	return made.still()
}

// unusual says what, apart from its arguments, keeps this call from the cache.
func (r *run) unusual() string {
	for _, name := range []string{"DEPENDENCIES_OUTPUT", "SUNPRO_DEPENDENCIES", "GCC_COMPARE_DEBUG", "LD_PRELOAD", "LD_AUDIT"} {
		if r.host.Env.Get(name) != "" {
			return name + " is set"
		}
	}
	for _, dir := range r.host.SplitList(r.host.Env.Get("PATH")) {
		if !filepath.IsAbs(dir) {
			return "a relative directory on PATH" // where no program is looked for here
		}
	}
	for _, out := range []string{r.output(), r.dependencies()} {
		if fi, err := os.Lstat(out); out != "" && err == nil && !fi.Mode().IsRegular() {
			return "an output that is no plain file"
		}
	}
	if r.output() == r.dependencies() || filepath.Clean(r.output()) == filepath.Clean(r.in[0]) {
		return "an output that is another file of the call"
	}
	return ""
}

// quick is the name of the recipe: everything that can be known without a process.
func (r *run) quick() string {
	var b bytes.Buffer
	r.question(&b)
	fmt.Fprintf(&b, "in %q\n", r.host.Cwd)
	names := []string{"gcc", "g++", "cc", "c++", "as"}
	if c := r.host.Env.Get("NVCC_CCBIN"); c != "" {
		names = append(names, c)
	}
	if r.compiler != "" {
		names = append(names, r.compiler, filepath.Join(r.compiler, "gcc"), filepath.Join(r.compiler, "g++"))
	}
	for _, name := range names {
		path, err := r.host.LookPath(name)
		if err != nil {
			path = name
		}
		fmt.Fprintf(&b, "%q\n", r.host.Real(path))
	}
	for i, w := range append([]string{"cuda_runtime.h"}, r.words...) { // -include looks into the working directory first
		if i == 0 || strings.HasSuffix(w, ".h") || strings.Contains(w, "include") || strings.Contains(r.words[max(0, i-2)], "include") {
			_, err := os.Stat(w)
			fmt.Fprintf(&b, "%t\n", err == nil)
		}
	}
	return hashOf(b.Bytes())
}

// trust is how far the state of the inputs can be relied on.
type trust int

const (
	settledDown trust = iota
	eachTime          // they have to be preprocessed each time
	young             // they may have changed since the call began
)

// more finds what a file's line markers do not show: the time, data, files that are only compared, and includes that lead out of the
// directories that are searched.
var more = lazyregexp.New(`__(TIME|DATE|TIMESTAMP)__|#\s*embed\b|__has_embed|GCC\s+dependency|include[^\n]*\.\.`)

// loaderCache decides which shared libraries programs load (ld.so(8)).
const loaderCache = "/etc/ld.so.cache"

// recipe is what is to be remembered of a call that began at a time.
func (r *run) recipe(p *preprocessed, began time.Time) (made recipe, found trust) {
	made = recipe{Result: p.key(), Trees: map[string]string{}, Links: map[string]string{}}
	searched := slices.Clone(p.dirs)
	for _, path := range p.shadows {
		if is, _ := state(path); is == "" {
			made.Files = append(made.Files, input{Path: path})
		}
	}
	files := slices.Concat(p.headers, p.tools)
	if r.host.IsFile(loaderCache) {
		files = append(files, loaderCache)
	}
	for i, path := range files {
		is, changed := state(path)
		sum, err := r.store.content(path)
		made.Files = append(made.Files, input{path, is, sum})
		if err != nil || is == "" || began.Sub(changed) <= settled {
			found = young
		}
		if i >= len(p.headers) {
			continue
		}
		searched = append(searched, filepath.Dir(path))
		if ofSystem(path) || r.inToolkit(path) {
			continue // these do neither
		}
		if text, err := os.ReadFile(path); err != nil || more.Match(text) {
			found = max(found, eachTime)
		}
	}
	if slices.ContainsFunc(r.words, func(w string) bool {
		return more.MatchString(w) || strings.Contains(w, "=") && strings.Contains(w, "..")
	}) {
		found = max(found, eachTime)
	}
	real := map[string]bool{}
	for _, dir := range searched {
		if !filepath.IsAbs(dir) {
			dir = r.host.Cwd + "/" + dir // not cleaned: a link may be on the way
		}
		to := resolve(dir)
		if real[to] = true; to != dir {
			made.Links[dir] = to
		}
	}
	for dir := range real {
		if inside(dir, real) {
			continue
		}
		sum, fresh, err := r.store.tree(dir)
		made.Trees[dir] = sum
		switch {
		case fresh:
			found = young
		case err != nil:
			delete(made.Trees, dir)
			found = max(found, eachTime)
		}
	}
	return made, found
}

// resolve is a directory without links, or itself where it is not there.
func resolve(dir string) string {
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		return real
	}
	return dir
}

func (r *run) inToolkit(path string) bool {
	return r.host.Below(r.host.Real(path), r.host.Real(filepath.Dir(filepath.Dir(r.real))))
}

// inside says whether a directory is below another one of a set.
func inside(dir string, set map[string]bool) bool {
	for parent := filepath.Dir(dir); ; parent = filepath.Dir(parent) {
		if set[parent] {
			return true
		}
		if parent == filepath.Dir(parent) {
			return false
		}
	}
}

// carryOut takes the steps that are left as nvcc would, which gives each of them to a shell, in this order and this environment, and ends
// as the first one that fails (strace of 13.4). So what is kept was made of the text that is in the key, and the preprocessor runs once.
func (r *run) carryOut(ctx context.Context, p *preprocessed) (res result, code int, err error) {
	if p.warned || r.debug || r.whole {
		return res, 0, uncached("nvcc itself has to do it")
	}
	for _, step := range p.steps {
		ran, err := r.runner.Run(ctx, buildenv.Cmd{Path: "/bin/sh", Args: []string{"-c", "exec " + step}, Env: p.env})
		res.Stdout, res.Stderr = append(res.Stdout, ran.Stdout...), append(res.Stderr, ran.Stderr...)
		var exit *buildenv.ExitError
		if errors.As(err, &exit) && ran.Signal == "" {
			return res, ran.Code, nil
		}
		if err != nil {
			return res, 0, err
		}
	}
	if res.Output, err = os.ReadFile(p.out); err == nil {
		err = r.write(res)
	}
	return res, 0, err
}

// compile makes the output; messages and exit status are the user's to see. The result is nil where it left none that can be kept.
func (r *run) compile(ctx context.Context, p *preprocessed, began time.Time, stdout, stderr io.Writer) (*result, int) {
	if res, code, err := r.carryOut(ctx, p); err == nil {
		_, _ = stdout.Write(res.Stdout)
		_, _ = stderr.Write(res.Stderr)
		res.Milliseconds = time.Since(began).Milliseconds()
		return &res, code
	}
	before, _ := state(r.output())
	began = time.Now()
	ran, err := r.runner.Run(ctx, buildenv.Cmd{Path: r.real, Args: r.args, Env: r.host.Env.Entries()})
	_, _ = stdout.Write(ran.Stdout)
	_, _ = stderr.Write(ran.Stderr)
	if err != nil {
		return nil, status(ran, err, stderr)
	}
	res := result{Milliseconds: time.Since(began).Milliseconds(), Stdout: ran.Stdout, Stderr: ran.Stderr}
	if after, _ := state(r.output()); after == before {
		return nil, 0
	}
	if res.Output, err = os.ReadFile(r.output()); err != nil {
		return nil, 0
	}
	if d := r.dependencies(); d != "" {
		if res.Dependencies, err = os.ReadFile(d); err != nil {
			return nil, 0
		}
	}
	return &res, 0
}

// write puts a result where nvcc would have put it.
func (r *run) write(res result) error {
	if d := r.dependencies(); d != "" {
		if err := place(d, res.Dependencies); err != nil {
			return err
		}
	}
	return place(r.output(), res.Output)
}

// place writes a temporary file in the same directory, with the permissions that nvcc would give it, and renames it.
func place(path string, data []byte) error {
	partial := fmt.Sprintf("%s.gpubuild-%d", path, os.Getpid())
	f, err := os.OpenFile(partial, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(partial, path)
	}
	if err != nil {
		_ = os.Remove(partial) // the first error counts
	}
	return err
}
