package nvcc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gpubuild/buildenv"
	"gpubuild/buildenv/cache"
	"gpubuild/buildenv/local"
	"gpubuild/buildenv/memo"
	"gpubuild/buildenv/proc"
)

const (
	// Variable is on, off or read: whether kernels come from the cache, and whether it is written.
	Variable = "GPUBUILD_GPU_CACHE"
	// LogVariable names the file in which the calls of one build note what they did.
	LogVariable = "GPUBUILD_GPU_CACHE_LOG"
	// MacrosVariable is where the lists of calls by procedural macros go.
	MacrosVariable = "GPUBUILD_GPU_MACROS"
)

// Named reports whether a program was started under the name nvcc.
func Named(program string) bool {
	return strings.TrimSuffix(strings.ToLower(filepath.Base(program)), ".exe") == "nvcc"
}

// Main acts as nvcc.
func Main(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	host, err := local.Host()
	self, failed := proc.Self()
	view, unread := readView(self)
	if err = cmp.Or(err, failed, unread); err != nil {
		fmt.Fprintln(stderr, "nvcc (gpubuild):", err)
		return 1
	}
	env := host.Env
	asked := parse(args, env.Get("NVCC_PREPEND_FLAGS"), env.Get("NVCC_APPEND_FLAGS"))
	if view.Release != "" {
		s := standIn{call: asked, host: host, runner: proc.Runner{}, stdout: stdout, stderr: stderr}
		s.major, s.minor, _ = strings.Cut(view.Release, ".")
		return s.main(ctx, args)
	}
	r := run{
		call: asked, host: host, env: env.Entries(), runner: proc.Runner{}, real: view.NVCC, args: args,
		cacheDir: view.Cache, readOnly: env.Get(Variable) == "read", memo: memo.Open(host, view.Cache, time.Now()),
	}
	// A procedural macro's: cargo gives that name to rustc alone, and no OUT_DIR of the macro's own.
	if build := env.Get(MacrosVariable); build != "" && env.Get("CARGO_CRATE_NAME") != "" {
		r.host.Env = env.Set("OUT_DIR", begun(MacroOut(build, env.Get("CARGO_PKG_NAME"))))
	}
	code := r.answer(ctx, stdin, stdout, stderr)
	r.keepList()
	return code
}

// answer runs a compilation.
func (r *run) answer(ctx context.Context, stdin io.Reader, stdout, stderr io.Writer) int {
	host, env := r.host, r.host.Env
	if host.OS == buildenv.Windows {
		return r.recorded(ctx, stdin, stdout, stderr)
	}
	if mode := env.Get(Variable); mode != "on" && mode != "read" {
		return r.plain(ctx, stdin, stdout, stderr)
	}
	// cargo sets LD_LIBRARY_PATH for build scripts; what is cached is made without it. ccache has nothing to add, nor what it would start.
	r.host.Env = env.Unset("LD_LIBRARY_PATH").Set("CCACHE_DISABLE", "1").Set("CCACHE_PREFIX", "").Set("CCACHE_PREFIX_CPP", "")
	what, code := r.cached(ctx, stdin, stdout, stderr)
	compiled := slices.Contains([]string{"o", "ptx", "cubin", "fatbin"}, r.mode)
	if compiled && !strings.Contains(host.Cwd, "/CMakeFiles/") { // there CMake tries compilers
		note(env.Get(LogVariable), what)
	}
	return code
}

// note appends a line to the build's log: a short write to a file is not torn by another process.
func note(file, what string) {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return // the build is over, or nobody counts
	}
	defer f.Close()
	_, _ = f.WriteString(strings.ReplaceAll(what, "\n", " ") + "\n") // counts only
}

// plain runs the real nvcc, as if it had been called itself. Why it was not started, or was interrupted, is written.
func (r *run) plain(ctx context.Context, stdin io.Reader, stdout, stderr io.Writer) int {
	res, err := r.runner.Run(ctx, buildenv.Cmd{Path: r.real, Args: r.args, Env: r.env, Stdin: stdin, Stdout: stdout, Stderr: stderr})
	var exit *buildenv.ExitError
	if err != nil && !errors.As(err, &exit) {
		fmt.Fprintln(stderr, "nvcc:", err)
		return max(1, res.Code)
	}
	return res.Code
}

// cached takes it from the cache, or runs nvcc and keeps what it left; what is for the log.
func (r *run) cached(ctx context.Context, stdin io.Reader, stdout, stderr io.Writer) (what string, code int) {
	began := time.Now()
	if r.unknown == "" {
		r.unknown = r.unusual()
	}
	if r.unknown != "" && (!r.compiles() || r.host.Env.Get("OUT_DIR") == "") {
		r.list(nil, nil)
		return "uncached " + r.unknown, r.plain(ctx, stdin, stdout, stderr)
	}
	p, err := r.preprocess(ctx)
	defer os.RemoveAll(r.tmp)
	r.list(p, err)
	if err == nil {
		err = p.refused
	}
	if r.unknown != "" {
		err = errors.New(r.unknown)
	}
	if err != nil {
		return "uncached " + err.Error(), r.plain(ctx, stdin, stdout, stderr)
	}
	key := p.key()
	if res, err := r.kept(key); err == nil && r.write(p, res) == nil {
		_, _ = stdout.Write(res.Stdout)
		_, _ = stderr.Write(res.Stderr)
		return fmt.Sprintf("hit %d", max(0, res.Milliseconds-time.Since(began).Milliseconds())), 0
	}
	res, err := r.carryOut(ctx, p)
	if err != nil { // nvcc says it, and leaves what it leaves
		return "uncached a compilation that fails", r.plain(ctx, stdin, stdout, stderr)
	}
	_, _ = stdout.Write(res.Stdout)
	_, _ = stderr.Write(res.Stderr)
	res.Milliseconds = time.Since(began).Milliseconds()
	if more := r.readMore(p); len(more) > 0 {
		p.headers = append(p.headers, more...)
		r.list(p, nil)
	} else if r.steady(p, began) {
		_ = r.keep(key, res) // costs time only
	}
	return "miss", 0
}

// steady reports whether the steps saw what is in the key: they read the preprocessed text and otherwise only files of the toolkit and the
// system, of which none may have changed since the call began, and for debug information the times of all.
func (r *run) steady(p *preprocessed, began time.Time) bool {
	return r.times(p) == p.times && r.memo.Unchanged(p.was) && !slices.ContainsFunc(p.headers, func(path string) bool {
		fi, err := os.Stat(path)
		return (ofSystem(path) || r.inToolkit(path)) &&
			(err != nil || began.UnixNano()-max(cache.StateTimeOf(fi), fi.ModTime().UnixNano()) <= int64(settled))
	})
}

// unusual says what, apart from its arguments, keeps this call from the cache.
func (r *run) unusual() string {
	for _, name := range []string{"DEPENDENCIES_OUTPUT", "SUNPRO_DEPENDENCIES", "GCC_COMPARE_DEBUG", "LD_AUDIT", "LD_PRELOAD"} {
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
		if fi, err := os.Lstat(out); out == "-" || out != "" && err == nil && !fi.Mode().IsRegular() {
			return "an output that is no plain file"
		}
	}
	if r.output() == r.dependencies() || filepath.Clean(r.output()) == filepath.Clean(r.in[0]) {
		return "an output that is another file of the call"
	}
	return ""
}

// carryOut takes the steps that are left as nvcc would, which gives each of them to a shell, in this order and this environment (strace of
// 13.4). So what is kept was made of the text that is in the key, and the preprocessor runs once.
func (r *run) carryOut(ctx context.Context, p *preprocessed) (res result, err error) {
	res.Stderr = p.said
	for _, step := range p.steps {
		if strings.Contains(step, " -c -x c++ ") {
			step += ` -Xassembler --MD -Xassembler "` + r.assembled() + `"`
		}
		ran, err := r.runner.Run(ctx, buildenv.Cmd{Path: "/bin/sh", Args: []string{"-c", "exec " + step}, Env: p.env})
		if err != nil {
			return res, err
		}
		res.Stdout, res.Stderr = append(res.Stdout, ran.Stdout...), append(res.Stderr, ran.Stderr...)
	}
	if res.Output, err = os.ReadFile(p.out); err != nil {
		return res, err
	}
	return res, r.write(p, res)
}

// assembled is where the assembler lists what it read.
func (r *run) assembled() string { return filepath.Join(r.tmp, "assembled.d") }

// readMore lists what the assembler read that is in no preprocessed text, by .incbin or .include, however it was spelled.
func (r *run) readMore(p *preprocessed) []string {
	if r.mode != "o" {
		return nil
	}
	rule, err := os.ReadFile(r.assembled())
	if err != nil {
		return []string{r.assembled()} // not known
	}
	return slices.DeleteFunc(prerequisites(string(rule)), func(path string) bool {
		base := filepath.Base(path) // of what cudafe++ and the compiler wrote
		return strings.HasPrefix(base, "tmpxft_") && strings.HasSuffix(base, ".cudafe1.cpp") ||
			strings.HasPrefix(base, "cc") && filepath.Ext(base) == ".s" || slices.Contains(p.headers, path)
	})
}

// write puts a result where nvcc would have put it.
func (r *run) write(p *preprocessed, res result) error {
	if err := r.writeDependencies(p); err != nil {
		return err
	}
	return r.place(r.output(), res.Output)
}

// writeDependencies writes what -MD asks for as nvcc 13.4 does: the files that the passes of its own preprocessing read.
func (r *run) writeDependencies(p *preprocessed) error {
	if !r.deps {
		return nil
	}
	rule := cmp.Or(r.target, r.output()) + " :"
	for i, path := range p.headers[:p.listed] {
		rule += map[bool]string{true: " ", false: " \\\n    "}[i == 0] + strings.ReplaceAll(path, " ", `\ `)
	}
	return r.place(r.dependencies(), []byte(rule+"\n"))
}

// place writes a file as the tool that makes it does: the assembler removes an object that was there, with its mode and its other names,
// and every other tool writes into it.
func (r *run) place(path string, data []byte) error {
	if r.mode == "o" && path == r.output() {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return os.WriteFile(path, data, 0o666)
}
