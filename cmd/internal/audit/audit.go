// Package audit finds out what a program does where the GPU fails: it makes a failing CUDA driver, runs the program against it, and
// judges whether it failed honestly or ended well all the same.
//
// It owns the failing driver (csrc/driver.c, compiled by the user's host compiler) and the table of Modes. What it can say is about this
// command line on a broken driver. It never says that a GPU was used; where the driver was not asked it says that nothing is known.
// NVIDIA's own run-time library uses doors of the driver that no one else can offer. In place of a libcudart.so that the binary loads a
// failing one is made (csrc/runtime.c), on Windows of a cudart64_*.dll; with a libcudart that is linked into it, and in cuBLAS and its
// like, a program is seen only up to its start.
package audit

import (
	"bytes"
	"cmp"
	"context"
	"debug/elf"
	"embed"
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
	"gpubuild/gpu/probe"
	"gpubuild/gpu/verify"
	"gpubuild/toolchain/loader"
)

//go:embed csrc
var sources embed.FS

// Mode is one way in which the driver fails.
type Mode struct {
	Name, What string
	answer     int // of every call that fails
	stage      int // what fails
}

// What fails: everything, or a device that works up to there. csrc/fails.h has the same numbers.
const (
	everything = iota
	memory     // there is none left
	module     // it has no code for this GPU
	launch     // the kernel, after its launch was accepted
	refused    // the launch
	back       // the copy of the result
	wrong      // nothing, but the result is no kernel's
	creation   // that of a context
	lookup     // that of a kernel by its name
	upload     // the copy of data to the device
	pinned     // memory of the host that the device reaches
)

type stageOf struct {
	what           string
	functions, but []string
}

var (
	launches = stageOf{
		"a launch",
		[]string{"cuLaunch", "cuGraphLaunch", "cudaLaunch", "__cudaLaunch", "cudaGraphLaunch"},
		[]string{"cuLaunchHostFunc", "cudaLaunchHostFunc"},
	}
	copiesBack = stageOf{"a copy of what a kernel computed", []string{"copy-back"}, nil} // as BACK in csrc/fails.h says it
)

// stages says what a program asks for where a stage is reached: prefixes of functions, and what they are called.
var stages = map[int]stageOf{
	memory: {"memory on the device", []string{"cuMemAlloc", "cuMemCreate", "cudaMalloc"}, []string{"cuMemAllocHost", "cudaMallocHost"}},
	module: {"a kernel", []string{"cuModuleLoad", "cuLibraryLoad", "cudaLaunch", "__cudaLaunch", "cudaFuncGetAttributes"}, nil},
	launch: launches, refused: launches, back: copiesBack, wrong: copiesBack,
	creation: {"a context", []string{"cuCtxCreate", "cuDevicePrimaryCtxRetain"}, nil},
	lookup:   {"a kernel by its name", []string{"cuModuleGetFunction", "cuLibraryGetKernel"}, nil},
	upload:   {"a copy to the device", []string{"copy-to"}, nil}, // as UP says it
	pinned:   {"memory of the host that the device reaches", []string{"cuMemHostAlloc", "cuMemAllocHost", "cudaHostAlloc", "cudaMallocHost"}, nil},
}

func (m Mode) reached(asked []string) bool {
	s := stages[m.stage]
	begins := func(list []string) func(string) bool {
		return func(f string) bool {
			return slices.ContainsFunc(list, func(p string) bool { return strings.HasPrefix(f, p) })
		}
	}
	return m.stage == everything || slices.ContainsFunc(asked, func(f string) bool { return begins(s.functions)(f) && !begins(s.but)(f) })
}

// baseline is the run in which nothing of ours fails. It says whether the command line is one that the program knows.
var baseline = Mode{Name: "baseline", What: "the program with the driver of this machine, if any"}

// Modes lists the ways in which the driver fails here.
func Modes() []Mode {
	return []Mode{
		{"no-device", "the driver sees no device (error 100)", 100, everything},
		{"no-library", "there is no CUDA driver", -1, everything},
		{"stub", "the driver is a stub of the toolkit (error 34)", 34, everything},
		{"mismatch", "driver and kernel module do not fit (error 803)", 803, everything},
		{"oom", "the device's memory is full (error 2)", 2, memory},
		{"no-binary", "the program has no code for this GPU (error 209)", 209, module},
		{"launch-failure", "its kernel fails after the launch was accepted (error 719)", 719, launch},
		{"launch-refused", "the launch of its kernel is refused (error 701)", 701, refused},
		{"copy-failure", "the copy of its result from the device fails (error 214)", 214, back},
		{"wrong-data", "the result that is copied from the device is wrong", 0, wrong},
		{"no-context", "the device is another program's alone (error 46)", 46, creation},
		{"no-kernel", "the loaded code does not have its kernel (error 500)", 500, lookup},
		{"upload-failure", "the copy of its data to the device fails (error 214)", 214, upload},
		{"no-pinned-memory", "there is no memory of the host that the device reaches (error 2)", 2, pinned},
	}
}

// Kind is what a program did in one mode. The zero value is Unsure.
type Kind string

// Kinds.
const (
	Unsure     Kind = "unsure"
	Honest     Kind = "failed honestly"
	FellBack   Kind = "fell back"   // silently, or it said so: ModeResult.Said
	NotReached Kind = "not reached" // it never came to where this mode fails
	Unchecked  Kind = "unchecked"   // its result was wrong, and it did not check that
	Baseline   Kind = "baseline"    // no driver failed
)

// ModeResult is what came of one mode.
type ModeResult struct {
	Mode  string   `json:"mode"`
	What  string   `json:"what"`
	Kind  Kind     `json:"kind"`
	Why   string   `json:"why"`
	Said  string   `json:"said,omitempty"` // the line in which it announced the fallback
	Asked []string `json:"asked"`          // functions of the driver that it called
	Code  int      `json:"code"`
	// Reached: it came to where this mode fails, or the mode fails from the start. A program that fails before is honest, and says
	// nothing of later.
	Reached bool `json:"reached"`

	optional   bool // many a good program does not come there: it does not count that it did not
	unprovoked bool // it failed although nothing was refused to it, and no kernel of it computed nothing
}

// Word is what the table says of a mode.
func (k Kind) Word() string {
	return cmp.Or(map[Kind]string{Honest: "ok", FellBack: "FAIL"}[k], string(k))
}

// unjudged reports whether a mode shows nothing although the program ended well.
func (o ModeResult) unjudged() bool {
	return o.Kind == Unsure || o.Kind == "" || o.Kind == NotReached && o.Code == 0 && !o.optional
}

// Passed reports whether a mode shows nothing that needs fixing.
func (o ModeResult) Passed() bool { return o.Kind != FellBack && !o.unjudged() }

// Options say what to run and how.
type Options struct {
	Binary   string
	Args     []string
	Env      buildenv.Env
	Compiler probe.Compiler // on Linux gcc or clang
	Dir      string         // a private directory, which the caller removes
	Timeout  time.Duration
}

// Run runs the program once as it is, and once in each mode.
func Run(ctx context.Context, h buildenv.Host, run buildenv.Runner, o Options) ([]ModeResult, error) {
	libraries, err := build(ctx, h, run, o)
	if err != nil {
		return nil, err
	}
	start := func(env buildenv.Env) (buildenv.Result, error) {
		r, err := run.Run(ctx, buildenv.Cmd{Path: o.Binary, Args: o.Args, Env: env.Entries(), Timeout: o.Timeout, Limit: 1 << 20})
		if ended, ok := errors.AsType[*buildenv.ExitError](err); ok { // a status other than 0 is an answer
			return ended.Result, nil
		}
		return r, err
	}
	result, err := start(o.Env)
	if err != nil {
		return nil, err
	}
	out := []ModeResult{{Mode: baseline.Name, What: baseline.What, Kind: Baseline, Why: "it " + how(h.OS, result), Code: result.Code,
		Asked: []string{}}}
	driver, err := sources.ReadFile("csrc/driver.c")
	if err != nil {
		return nil, err
	}
	answers := bodies(driver) // the driver refuses all others in every mode
	var calls []string
	for _, m := range Modes() {
		dir := filepath.Join(o.Dir, m.Name)
		if err := place(h, libraries, o.Dir, dir, m); err != nil {
			return nil, err
		}
		var d buildenv.Delta
		d.Add(buildenv.Prepend, loader.Variable(h), dir, "the failing driver")
		result, err := start(h.Apply(o.Env, d))
		if err != nil {
			return nil, err
		}
		if m.answer >= 0 { // of a library that is not there nobody says whether it was looked for: the mode before does
			log, err := os.ReadFile(filepath.Join(dir, "asked"))
			if err != nil && !errors.Is(err, os.ErrNotExist) {
				return nil, err
			}
			calls = strings.Fields(string(log))
		}
		o := judge(h.OS, m, calls, result)
		refused := slices.ContainsFunc(calls, func(f string) bool {
			return functionName.MatchString(f) && !answers[strings.TrimSuffix(strings.TrimSuffix(f, "_ptsz"), "_ptds")]
		})
		o.unprovoked = !o.Reached && len(calls) > 0 && !(Mode{stage: launch}).reached(calls) && !refused
		out = append(out, o)
	}
	return failsAnyway(out, verify.HasNode(h)), nil
}

// failsAnyway withdraws what modes show of a program that fails in the same way where the driver is no reason: here, with a GPU, or up to
// where a mode fails. Without a GPU a baseline that fails is what a good program does.
func failsAnyway(all []ModeResult, device bool) []ModeResult {
	code, as := all[0].Code, ""
	for _, o := range all {
		if code != 0 && o.Code == code && (device && o.Kind == Baseline || o.unprovoked) {
			as = o.Mode
		}
	}
	for i := range all {
		if o := &all[i]; as != "" && o.Kind == Honest && o.Code == code {
			o.Kind, o.Why = Unsure, o.Why+", as it does where nothing was refused: see "+as
		}
	}
	return all
}

// build compiles the libraries that fail, once; which mode it is they read from a file next to them.
func build(ctx context.Context, h buildenv.Host, run buildenv.Runner, o Options) ([]library, error) {
	read, driver := elfImports, "libcuda.so.1"
	if h.OS == buildenv.Windows {
		if err := before(h, o); err != nil {
			return nil, err
		}
		read, driver = peImports, driverDLL
	}
	of, err := read(o.Binary)
	if err != nil {
		return nil, err
	}
	names, err := of.needed()
	if err != nil {
		return nil, err
	}
	libraries := []library{{driver, "driver.c", names.driver}}
	if names.soname != "" {
		libraries = append(libraries, library{names.soname, "runtime.c", names.runtime})
	}
	for _, l := range libraries {
		source, err := l.write(o.Dir)
		if err != nil {
			return nil, err
		}
		c := probe.Compile(h, o.Compiler, o.Dir, source, h.Join(o.Dir, l.soname), true)
		if h.OS == buildenv.Linux {
			// -O0: hundreds of functions that only fail are compiled for each audit
			c.Args = append(c.Args, "-std=gnu11", "-w", "-O0", "-Wl,-soname,"+l.soname, "-Wl,-Bsymbolic")
			if l.source == "runtime.c" { // symbols of libcudart carry the library's name as their version; the driver's carry none
				c.Args = append(c.Args, "-Wl,--version-script="+source+".map")
			}
		}
		if _, err := run.Run(ctx, c); err != nil {
			return nil, fmt.Errorf("building the failing driver: %w", err)
		}
	}
	return libraries, nil
}

// place puts the libraries into the directory of a mode, and says how they fail there.
func place(h buildenv.Host, libraries []library, from, to string, m Mode) error {
	if err := os.MkdirAll(to, 0o700); err != nil {
		return err
	}
	if m.answer < 0 && h.OS != buildenv.Windows {
		// A file that is no library ends the loader's search, also where a real driver is installed.
		for _, name := range []string{"libcuda.so.1", "libcuda.so", "libnvcuda.so.1", "libnvcuda.so"} {
			if err := os.WriteFile(filepath.Join(to, name), []byte("no library: gpubuild audit\n"), 0o600); err != nil {
				return err
			}
		}
		return nil
	}
	for _, l := range libraries {
		answer := m.answer
		if answer < 0 && l.source == "runtime.c" {
			answer = insufficientDriver
		}
		data, err := os.ReadFile(filepath.Join(from, l.soname))
		if err != nil {
			return err
		}
		file := filepath.Join(to, l.soname)
		mode := fmt.Appendf(nil, "%d %d\n", answer, m.stage)
		if err := errors.Join(os.WriteFile(file, data, 0o700), os.WriteFile(file+".mode", mode, 0o600)); err != nil {
			return err
		}
	}
	if h.OS == buildenv.Windows {
		return nil
	}
	return os.Symlink("libcuda.so.1", filepath.Join(to, "libcuda.so"))
}

// library is one that fails: its file, its source and every function that it must have.
type library struct {
	soname, source string
	names          []string
}

// write puts the library's source into a directory and answers where.
func (l library) write(dir string) (string, error) {
	common, err := sources.ReadFile("csrc/fails.h")
	if err != nil {
		return "", err
	}
	body, err := l.text()
	if err != nil {
		return "", err
	}
	source := filepath.Join(dir, l.source)
	files := map[string][]byte{
		filepath.Join(dir, "fails.h"): common,
		source:                        body,
		source + ".map":               []byte(l.soname + " { global: *; };\n"),
	}
	for path, data := range files {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			return "", err
		}
	}
	return source, nil
}

// needed is what the failing libraries must have for a binary.
type needed struct {
	driver  []string
	soname  string // libcudart.so.13, cudart64_13.dll: the binary loads it; empty: it does not
	runtime []string
}

var (
	functionName    = lazyregexp.New(`^cu[A-Z][A-Za-z0-9_]{1,100}$`)
	runtimeFunction = lazyregexp.New(`^(__)?cuda[A-Z][A-Za-z0-9_]{1,100}$`)
	runtimeLibrary  = lazyregexp.New(`^(libcudart\.so\.[0-9][0-9.]*|(?i:cudart64_[0-9]+\.dll))$`)
)

// imports are what a binary names of others: functions and libraries.
type imports struct{ functions, libraries []string }

func elfImports(binary string) (imports, error) {
	var out imports
	f, err := elf.Open(binary)
	switch _, format := errors.AsType[*elf.FormatError](err); {
	case format, errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF): // a script
		return out, nil
	case err != nil:
		return out, err
	}
	defer f.Close()
	symbols, err := f.ImportedSymbols()
	if err != nil && !errors.Is(err, elf.ErrNoSymbols) {
		return out, fmt.Errorf("%s: %w", binary, err)
	}
	for _, s := range symbols {
		out.functions = append(out.functions, s.Name)
	}
	if out.libraries, err = f.ImportedLibraries(); err != nil && !errors.Is(err, elf.ErrNoSymbols) {
		return out, fmt.Errorf("%s: %w", binary, err)
	}
	return out, nil
}

// needed lists every function that the failing libraries must have: those of NVIDIA's headers, and what the binary itself imports.
func (of imports) needed() (needed, error) {
	driver, err1 := sources.ReadFile("csrc/names.txt")
	runtime, err2 := sources.ReadFile("csrc/runtime.txt")
	out := needed{driver: strings.Fields(string(driver)), runtime: strings.Fields(string(runtime))}
	for _, name := range of.functions {
		if runtimeFunction.MatchString(name) {
			out.runtime = append(out.runtime, name)
		} else if functionName.MatchString(name) { // cuBLAS and the others have names of their own: no capital after cu
			out.driver = append(out.driver, name)
		}
	}
	for _, l := range of.libraries {
		if runtimeLibrary.MatchString(l) {
			out.soname = l
		}
	}
	slices.Sort(out.driver)
	slices.Sort(out.runtime)
	out.driver, out.runtime = slices.Compact(out.driver), slices.Compact(out.runtime)
	return out, errors.Join(err1, err2)
}

var written = lazyregexp.New(`(?m)^(?:API|QUIET\([^)]*\)) (\w+)\(|^ALIAS\((\w+),`)

// bodies are the functions that a library's source has.
func bodies(source []byte) map[string]bool {
	has := map[string]bool{}
	for _, m := range written.FindAllSubmatch(source, -1) {
		has[string(m[1])+string(m[2])] = true
	}
	return has
}

// text is the library's source, and behind it every function that has no body there. One for per-thread default streams is that without.
func (l library) text() ([]byte, error) {
	body, err := sources.ReadFile("csrc/" + l.source)
	if err != nil {
		return nil, err
	}
	has := bodies(body)
	var b bytes.Buffer
	b.Write(body)
	is := map[string]string{} // an alias has no body that a C compiler of Microsoft's could name
	for _, n := range l.names {
		plain := strings.TrimSuffix(strings.TrimSuffix(n, "_ptsz"), "_ptds")
		is[n] = n
		switch {
		case has[n]:
		case plain != n && has[plain]:
			is[n] = plain
			fmt.Fprintf(&b, "ALIAS(%s, %s)\n", n, plain)
		default:
			fmt.Fprintf(&b, "NAME(%s)\n", n)
		}
	}
	if l.source != "driver.c" {
		return b.Bytes(), nil
	}
	b.WriteString("static const struct { const char *name; void *f; } table[] = {\n")
	for _, n := range l.names {
		fmt.Fprintf(&b, "{ %q, (void *)%s },\n", n, is[n])
	}
	b.WriteString(`};
static int look(const char *name, void **f) {
    char newer[128];
    for (int v = 3; v > 0; v--) {
        snprintf(newer, sizeof newer, v > 1 ? "%s_v%d" : "%s", name, v);
        for (size_t i = 0; i < sizeof table / sizeof *table; i++) if (!strcmp(table[i].name, newer)) { *f = table[i].f; return OK; }
    }
    *f = NULL;
    return NOT_FOUND;
}
`)
	return b.Bytes(), nil
}

// judge decides what one run shows. It looks at nothing else.
func judge(system string, m Mode, asked []string, r buildenv.Result) ModeResult {
	o := ModeResult{Mode: m.Name, What: m.What, Kind: Unsure, Asked: append([]string{}, asked...), Code: r.Code}
	if o.Said = verify.LineAboutCPU(r.Stdout); o.Said == "" {
		o.Said = verify.LineAboutCPU(r.Stderr)
	}
	o.Reached, o.optional = m.reached(asked), m.stage >= back
	end := ending(system, r)
	missing := end == lacking || bytes.Contains(r.Stderr, []byte("symbol lookup error")) ||
		bytes.Contains(r.Stderr, []byte("undefined symbol: cu")) ||
		bytes.Contains(r.Stderr, []byte("version `libcudart"))
	switch {
	case r.TimedOut:
		o.Why = "it did not end in time"
	case end == crashed, end == aborted && len(asked) == 0:
		o.Why = "it " + how(system, r)
	case missing:
		o.Why = "the failing driver lacks a function that it needs"
	case len(asked) == 0 && r.Code == 0:
		o.Kind = NotReached
		o.Why = "it ended with 0 and never looked for the driver: it is built without CUDA, no option selects CUDA, or it looks for " +
			"the driver elsewhere"
	case len(asked) == 0:
		o.Kind, o.Why = NotReached, "it "+how(system, r)+" before it looked for the driver"
	case !o.Reached && r.Code == 0:
		o.Kind, o.Why = NotReached, "it ended with 0, but never asked for "+stages[m.stage].what
	case !o.Reached:
		o.Kind, o.Why = NotReached, "it looked for the driver and "+how(system, r)+", before it asked for "+stages[m.stage].what
	case r.Code != 0:
		o.Kind, o.Why = Honest, "it looked for the driver and "+how(system, r)
	case m.stage == pinned && (Mode{stage: launch}).reached(asked):
		o.Kind, o.Why = Unchecked, "it launched a kernel all the same, and ended with 0: ordinary memory serves, too"
	case m.stage == wrong:
		o.Kind, o.Why = Unchecked, "it ended with 0: it does not check its result, or falls back, which counts for nothing here"
	case m.stage == launch || m.stage == refused:
		o.Kind, o.Why = FellBack, "its kernel failed, and it ended with 0: silent CPU fallback, or it never checked whether "+
			"the kernel succeeded"
	default:
		o.Kind, o.Why = FellBack, "it looked for the driver, was refused, and ended with 0: silent CPU fallback"
	}
	return o
}

// endKind is how a process came to its end.
type endKind int

const (
	left    endKind = iota // by itself, with whatever status
	aborted                // it saw that something was wrong, and gave up
	crashed
	lacking // a function is missing in a library
)

// ending distinguishes a process that gave up from one that crashed.
func ending(system string, r buildenv.Result) endKind {
	switch {
	case system == buildenv.Windows:
		return windowsEnding(uint32(r.Code))
	case r.Signal == "":
		return left
	case r.Code == 128+6: // SIGABRT
		return aborted
	}
	return crashed
}

func how(system string, r buildenv.Result) string {
	switch {
	case system == buildenv.Windows:
		return windowsHow(uint32(r.Code))
	case r.Signal != "":
		return "was ended by " + r.Signal
	}
	return fmt.Sprintf("ended with %d", r.Code)
}

// Worst combines the outcomes: one fallback, else one that is unsure, else honest.
func Worst(all []ModeResult) Kind {
	honest := false
	for _, o := range all {
		if o.Kind == FellBack {
			return FellBack
		}
		honest = honest || o.Kind == Honest
	}
	if !honest || slices.ContainsFunc(all, ModeResult.unjudged) {
		return Unsure
	}
	return Honest
}

// Tried says in how many kinds of failure a program that hid none was tried, of which it is not known whether it hid them, and in which it was not.
func Tried(all []ModeResult) string {
	tried, not, unchecked := 0, []string{}, []string{}
	for _, o := range all {
		switch o.Kind {
		case Baseline:
		case NotReached:
			not = append(not, o.Mode)
		case Unchecked:
			unchecked = append(unchecked, o.Mode)
		default:
			tried++
		}
	}
	what := "kinds"
	if tried == 1 {
		what = "kind"
	}
	said := fmt.Sprintf("%d %s of failure tried, silent in none of them", tried, what)
	if len(unchecked) > 0 {
		said += "; tried, and not known: " + strings.Join(unchecked, ", ")
	}
	if len(not) > 0 {
		said += "; not tried: " + strings.Join(not, ", ")
	}
	return said
}

// Summary counts the outcomes of the modes in a line.
func Summary(all []ModeResult) string {
	count := map[Kind]int{}
	for _, o := range all {
		count[o.Kind]++
	}
	var parts []string
	for _, k := range []Kind{Honest, FellBack, NotReached, Unchecked, Unsure} {
		if count[k] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", count[k], k.Word()))
		}
	}
	return fmt.Sprintf("%d modes: %s", len(all)-count[Baseline], strings.Join(parts, ", "))
}
