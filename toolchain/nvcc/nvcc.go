package nvcc

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"gpubuild/buildenv"
	"gpubuild/buildenv/cache"
	"gpubuild/buildenv/local"
	"gpubuild/buildenv/memo"
	"gpubuild/buildenv/proc"
	"gpubuild/gpu"
	"gpubuild/toolchain/cargo/builddir"
	"gpubuild/toolchain/hostcc"
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

// withChosen puts the host compiler of NVCC_CCBIN in the place of the cc crate's default, which it passes whatever was chosen, and nvcc
// puts before NVCC_CCBIN (cc, Build::cuda). A compiler that CXX names is the user's word and stays.
func withChosen(args []string, h buildenv.Host) []string {
	chosen := h.Env.Get("NVCC_CCBIN")
	if chosen == "" || h.Env.Get(hostcc.CXXWord(h)) != "" {
		return args
	}
	args = slices.Clone(args)
	for i, a := range args {
		if a == "-ccbin=c++" {
			args[i] = "-ccbin=" + chosen
		}
	}
	return args
}

// Linked says of a file with a SHA-256 which objects with device code it has, by theirs, if it is an archive.
type Linked func(h buildenv.Host, path, sum string) (objects []string, archive bool)

// Main acts as nvcc.
func Main(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer, linked Linked) int {
	debug.SetGCPercent(400) // most calls end before a first collection
	host, err := local.Host()
	self, failed := proc.Self()
	view, unread := readView(self)
	if err = cmp.Or(err, failed, unread); err != nil {
		fmt.Fprintln(stderr, "nvcc (gpubuild):", err)
		return 1
	}
	env := host.Env
	before, after := env.Get("NVCC_PREPEND_FLAGS"), env.Get("NVCC_APPEND_FLAGS")
	args = withChosen(args, host)
	asked := parse(args, before, after)
	if view.Release != "" {
		s := standIn{call: asked, host: host, runner: proc.Runner{}, stdout: stdout, stderr: stderr}
		s.major, s.minor, _ = strings.Cut(view.Release, ".")
		return s.main(ctx, args)
	}
	archs, _ := gpu.ParseArchs(env.Get(ArchsVariable)) // gpubuild's own word
	if with, only := withArchs(args, asked, archs); len(archs) > 0 {
		args, asked = with, parse(with, before, after)
		if name := env.Get("CARGO_PKG_NAME"); !only.Capability.IsZero() && name != "" {
			note(env.Get(LogVariable), "only "+only.String()+" "+name)
		}
	}
	r := run{
		call: asked, several: len(archs) > 0, parts: &parts{}, host: host, env: env.Entries(), runner: proc.Runner{}, real: view.NVCC, args: args, linked: linked,
		cacheDir: view.Cache, memo: memo.Open(host, view.Cache, time.Now()),
	}
	script := scriptEnv(host)
	out := script.Get("OUT_DIR")
	if build := script.Get(MacrosVariable); build != "" && script.Get("CARGO_CRATE_NAME") != "" { // rustc's: a procedural macro calls
		out = begun(MacroOut(build, script.Get("CARGO_PKG_NAME")), script.Get(LogVariable))
	}
	r.host.Env = env.Set("OUT_DIR", out)
	for _, name := range []string{Variable, LogVariable} {
		r.host.Env = r.host.Env.Set(name, cmp.Or(env.Get(name), script.Get(name)))
	}
	r.readOnly = r.host.Env.Get(Variable) == "read"
	code := r.answer(ctx, stdin, stdout, stderr)
	r.keepRecord(code == 0)
	return code
}

// scriptEnv is the environment that a call of a build script or of rustc has, or has lost (env_clear): that of the nearest process above
// it which cargo started.
func scriptEnv(h buildenv.Host) buildenv.Env {
	env, pid := h.Env, os.Getppid()
	for env.Get("CARGO_CRATE_NAME") == "" && builddir.Ran(h, env.Get("OUT_DIR")) == 0 {
		entries, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		stat, failed := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		above := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:])) // its state, and its parent (proc(5))
		if err != nil || failed != nil || len(above) < 2 {
			return h.Env
		}
		env = buildenv.NewEnv(h.OS, strings.Split(string(entries), "\x00"))
		pid, _ = strconv.Atoi(above[1]) // 0: there is none
	}
	return env
}

// answer runs a compilation.
func (r *run) answer(ctx context.Context, stdin io.Reader, stdout, stderr io.Writer) int {
	host, env := r.host, r.host.Env
	if input := r.consumed(); input != "" {
		return r.once(ctx, input, stdin, stdout, stderr)
	}
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

// once runs the real nvcc at once where it has an input that can be read only once. Its preprocessor lists the headers by the way: GCC
// manual, "Environment Variables Affecting GCC"; -MD would add a pass that reads the input.
func (r *run) once(ctx context.Context, input string, stdin io.Reader, stdout, stderr io.Writer) int {
	const variable = "SUNPRO_DEPENDENCIES"
	p, rules := &preprocessed{}, ""
	given := r.host.Env.Get(variable) + r.host.Env.Get("DEPENDENCIES_OUTPUT")
	if r.host.Env.Get("OUT_DIR") != "" && given == "" && r.scratch() == nil && !strings.Contains(r.tmp, " ") { // else no header is known
		rules = filepath.Join(r.tmp, "rules")
		r.env = r.host.Env.Set(variable, rules+" x").Entries()
	}
	defer os.RemoveAll(r.tmp)
	code := r.plain(ctx, stdin, stdout, stderr)
	text, _ := os.ReadFile(rules)
	for rule := range strings.SplitSeq(strings.ReplaceAll(string(text), "\\\n", ""), "\n") {
		for _, path := range prerequisites(rule) {
			if !strings.HasPrefix(filepath.Base(path), "tmpxft_") {
				p.once(&p.headers, path)
			}
		}
	}
	p.single = append(p.single, input)
	r.list(p, nil)
	if r.host.Env.Get(Variable) == "on" {
		note(r.host.Env.Get(LogVariable), "uncached an input that can be read only once")
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
	// What is run for the record adds nothing to a list of the user's.
	r.host.Env = r.host.Env.Unset("DEPENDENCIES_OUTPUT").Unset("SUNPRO_DEPENDENCIES")
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
	if pipe := p.pipe(); pipe != "" { // nvcc would wait for it
		fmt.Fprintf(stderr, "nvcc (gpubuild): %s is not a regular file, and gpubuild has read it to find the headers of this call\n"+
			"  set %s=off to have nvcc alone read it\n", pipe, Variable)
		return "uncached " + onlyOnce + pipe, 1
	}
	if err != nil {
		return "uncached " + err.Error(), r.plain(ctx, stdin, stdout, stderr)
	}
	key := p.key()
	if res, err := r.kept(key); err == nil && r.write(p, res) == nil {
		r.say(ctx, res, stdout, stderr)
		return fmt.Sprintf("hit %d", max(0, res.Milliseconds-time.Since(began).Milliseconds())), 0
	}
	res, err := r.carryOut(ctx, p)
	if err != nil { // nvcc says it, and leaves what it leaves
		return "uncached a compilation that fails", r.plain(ctx, stdin, stdout, stderr)
	}
	more := r.readMore(p)
	if p.single = slices.DeleteFunc(slices.Clone(more), func(path string) bool { return !readOnce(path) }); slices.ContainsFunc(p.single, ofProcess) {
		r.list(p, nil)
		return "uncached " + onlyOnce + p.single[0], r.plain(ctx, stdin, stdout, stderr)
	}
	r.say(ctx, res, stdout, stderr)
	res.Milliseconds = time.Since(began).Milliseconds()
	if len(more) > 0 {
		p.headers = append(p.headers, more...)
		r.list(p, nil)
	} else if r.steady(p, began) {
		_ = r.keep(key, res) // costs time only
		if r.several {
			r.parts.made.Range(func(key, one any) bool { return r.keep(key.(string), one.(result)) == nil })
		}
	}
	if saved := r.parts.saved.Load(); saved > 0 && !r.parts.compiled.Load() {
		return fmt.Sprintf("hit %d", saved), 0
	}
	return "miss", 0
}

// onlyOnce begins why a call is not cached that has such an input.
const onlyOnce = "an input that can be read only once: "

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

// say repeats what the steps said, in nvcc's order; with --verbose each behind its line.
func (r *run) say(ctx context.Context, res result, stdout, stderr io.Writer) {
	of := func(name string) {
		_, _ = stdout.Write(res.Said[name].Out)
		_, _ = stderr.Write(res.Said[name].Err)
	}
	var dry buildenv.Result
	if r.verbose { // what is listed for this call, with the names of its files
		dry, _ = r.runner.Run(ctx, buildenv.Cmd{Path: r.real, Args: append([]string{"--dryrun"}, r.args...), Env: r.env})
	}
	if len(dry.Stderr) == 0 {
		for _, name := range res.Order {
			of(name)
		}
		return
	}
	var order []string
	for line := range strings.Lines(string(dry.Stderr)) {
		_, _ = io.WriteString(stderr, line)
		if text, ok := strings.CutPrefix(line, "#$ "); ok && !variableLine.MatchString(text) && !strings.HasPrefix(text, "-- ") {
			order = append(order, name(order, text))
			of(order[len(order)-1])
		}
	}
}

// carryOut takes the steps that are left as nvcc would, which gives each of them to a shell, in this order and this environment (strace of
// 13.4), with --threads several of one program at a time. So what is kept was made of the text that is in the key, and the preprocessor
// runs once.
func (r *run) carryOut(ctx context.Context, p *preprocessed) (res result, err error) {
	res.Said, res.Order = p.said, p.order
	rank := func(s step) int { // cicc needs the module's ID, from cudafe++ or the first cicc, and ptxas what cicc makes
		program, _, _ := strings.Cut(s.name, " ")
		if strings.Contains(s.shell, " --gen_module_id_file ") {
			return 0
		}
		return slices.Index([]string{"cudafe++", "cicc", "ptxas", program}, program)
	}
	if r.threads > 1 {
		slices.SortStableFunc(p.steps, func(a, b step) int { return rank(a) - rank(b) })
	}
	for left := p.steps; len(left) > 0; {
		n := 1
		for n < len(left) && r.threads > 1 && rank(left[n]) == rank(left[0]) && rank(left[0]) < 3 {
			n++
		}
		said := make([]said, n)
		group, ctx := errgroup.WithContext(ctx)
		group.SetLimit(max(1, r.threads))
		for i, s := range left[:n] {
			if strings.Contains(s.shell, " -c -x c++ ") {
				s.shell += ` -Xassembler --MD -Xassembler "` + r.assembled() + `"`
			}
			group.Go(func() (err error) {
				said[i], err = r.part(ctx, s, p)
				return err
			})
		}
		err := group.Wait()
		for i, s := range left[:n] {
			res.Said[s.name] = said[i]
		}
		if err != nil {
			return res, err
		}
		left = left[n:]
	}
	if res.Output, err = os.ReadFile(p.out); err != nil {
		return res, err
	}
	return res, r.write(p, res)
}

// shell runs a command that may read hidden, and nothing of what this call was given open: that is nvcc's. Where not all that it says is
// known, as on a machine that stood still, that is an error.
func (r *run) shell(ctx context.Context, command string, env []string) (said, error) {
	ran, err := r.runner.Run(ctx, buildenv.Cmd{Path: "/bin/sh", Args: []string{"-c", "exec " + command}, Stdin: strings.NewReader(hidden), Env: env, Blank: true})
	if err == nil && ran.Truncated {
		err = errors.New("its messages are cut")
	}
	return said{ran.Stdout, ran.Stderr}, err
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

// place writes a file as the tool that makes it does: the assembler removes an object that was there, with its mode and its other names, if
// it is not empty (bfd_open_file of binutils), and every other tool writes into it.
func (r *run) place(path string, data []byte) error {
	if fi, err := os.Stat(path); err == nil && fi.Size() > 0 && r.mode == "o" && path == r.output() {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return os.WriteFile(path, data, 0o666)
}
