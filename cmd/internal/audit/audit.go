// Package audit finds out what a program does where the GPU fails: it makes a failing CUDA driver, runs the program against it, and judges
// whether it failed honestly or ended well all the same.
//
// It owns the failing driver (csrc/driver.c, compiled by the user's host compiler) and the table of Modes. What it can say is about this
// command line on a broken driver. It never says that a GPU was used, and where the driver was not asked it says that it could not tell.
// Programs with NVIDIA's own run-time library use doors of the driver that no one else can offer: they are seen only up to their start.
package audit

import (
	"bufio"
	"bytes"
	"context"
	"debug/elf"
	"embed"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"strings"
	"time"

	"gpubuild/buildenv"
)

//go:embed csrc
var sources embed.FS

// runner is all that an audit asks of the world.
type runner interface {
	Run(ctx context.Context, c buildenv.Cmd) (buildenv.Result, error)
}

// Mode is one way in which the driver fails.
type Mode struct {
	Name, What string
	answer     int  // of every call
	works      bool // up to the device's memory
}

// Modes lists the ways in which the driver fails here.
func Modes() []Mode {
	return []Mode{
		{"no-library", "there is no CUDA driver", -1, false},
		{"no-device", "the driver sees no device (error 100)", 100, false},
		{"stub", "the driver is a stub of the toolkit (error 34)", 34, false},
		{"mismatch", "driver and kernel module do not fit (error 803)", 803, false},
		{"oom", "the device's memory is full (error 2)", 2, true},
	}
}

// Kind is what a program did in one mode. The zero value is Unsure.
type Kind string

// Kinds.
const (
	Unsure   Kind = "unsure"
	Honest   Kind = "failed honestly"
	FellBack Kind = "fell back"
)

// Outcome is what came of one mode.
type Outcome struct {
	Mode  string   `json:"mode"`
	What  string   `json:"what"`
	Kind  Kind     `json:"kind"`
	Why   string   `json:"why"`
	Said  string   `json:"said,omitempty"` // the line in which it told that it fell back
	Asked []string `json:"asked"`          // functions of the driver that it called, or the library that it looked for
	Code  int      `json:"code"`
}

// Options say what to run and how.
type Options struct {
	Binary   string
	Args     []string
	Env      buildenv.Env
	Compiler string
	Dir      string // a private directory, which the caller removes
	Timeout  time.Duration
}

// Run runs the program once in each mode.
func Run(ctx context.Context, h buildenv.Host, run runner, o Options) ([]Outcome, error) {
	names, err := functions(o.Binary)
	if err != nil {
		return nil, err
	}
	var out []Outcome
	for _, m := range Modes() {
		dir := filepath.Join(o.Dir, m.Name)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
		asked, c, err := stage(ctx, h, run, o, m, dir, names)
		if err != nil {
			return nil, err
		}
		result, err := run.Run(ctx, c)
		var exit *buildenv.ExitError
		switch {
		case errors.As(err, &exit):
			result = exit.Result
		case err != nil:
			return nil, err
		}
		calls, err := asked()
		if err != nil {
			return nil, err
		}
		out = append(out, judge(m, calls, result))
	}
	return out, nil
}

// stage makes the driver of one mode and the command that runs the program with it. asked answers afterwards what the program asked for.
func stage(ctx context.Context, h buildenv.Host, run runner, o Options, m Mode, dir string, names []string) (asked func() ([]string, error), c buildenv.Cmd, err error) {
	lib := filepath.Join(dir, "lib")
	if err := os.MkdirAll(lib, 0o700); err != nil {
		return nil, c, err
	}
	var d buildenv.Delta
	d.Add(buildenv.Prepend, "LD_LIBRARY_PATH", lib, "the failing driver")
	env := h.Apply(o.Env, d)
	c = buildenv.Cmd{Path: o.Binary, Args: o.Args, Timeout: o.Timeout, Limit: 1 << 20}
	log := filepath.Join(dir, "asked")
	if m.answer < 0 {
		// A file that is no library ends the loader's search, also where a real driver is installed.
		for _, name := range []string{"libcuda.so.1", "libcuda.so", "libnvcuda.so.1", "libnvcuda.so"} {
			if err := os.WriteFile(filepath.Join(lib, name), []byte("no library: gpubuild audit\n"), 0o600); err != nil {
				return nil, c, err
			}
		}
		c.Env = env.Set("LD_DEBUG", "libs").Set("LD_DEBUG_OUTPUT", log).Entries()
		return func() ([]string, error) { return lookedFor(log) }, c, nil
	}
	source := filepath.Join(dir, "driver.c")
	if err := os.WriteFile(source, text(names), 0o600); err != nil {
		return nil, c, err
	}
	works := 0
	if m.works {
		works = 1
	}
	_, err = run.Run(ctx, buildenv.Cmd{
		Path: o.Compiler, Dir: dir, Env: h.Env.Set("LC_ALL", "C").Entries(), Timeout: 2 * time.Minute, Limit: 1 << 20,
		Args: []string{
			"-std=gnu11", "-O1", "-w", "-shared", "-fPIC", "-fvisibility=hidden", "-Wl,-soname,libcuda.so.1", "-Wl,-Bsymbolic",
			fmt.Sprintf("-DANSWER=%d", m.answer), fmt.Sprintf("-DWORKS=%d", works), fmt.Sprintf("-DLOG=%q", log),
			"-o", filepath.Join(lib, "libcuda.so.1"), source,
		},
	})
	if err != nil {
		return nil, c, fmt.Errorf("building the failing driver: %w", err)
	}
	if err := os.Symlink("libcuda.so.1", filepath.Join(lib, "libcuda.so")); err != nil {
		return nil, c, err
	}
	c.Env = env.Entries()
	return func() ([]string, error) {
		data, err := os.ReadFile(log)
		if errors.Is(err, os.ErrNotExist) {
			return nil, nil
		}
		return strings.Fields(string(data)), err
	}, c, nil
}

var loaderLine = regexp.MustCompile(`find library=(lib(?:nv)?cuda\.so[.0-9]*)`)

// lookedFor reads in the loader's own words whether the driver was looked for, by any process of the program.
func lookedFor(prefix string) ([]string, error) {
	files, err := filepath.Glob(prefix + ".*")
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	for _, f := range files {
		if err := eachLine(f, func(line []byte) {
			if m := loaderLine.FindSubmatch(line); m != nil {
				seen[string(m[1])] = true
			}
		}); err != nil {
			return nil, err
		}
	}
	var out []string
	for n := range seen {
		out = append(out, n)
	}
	sort.Strings(out)
	return out, nil
}

func eachLine(file string, do func([]byte)) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	in := bufio.NewScanner(io.LimitReader(f, 64<<20))
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		do(in.Bytes())
	}
	return in.Err()
}

var functionName = regexp.MustCompile(`^cu[A-Z][A-Za-z0-9_]{1,100}$`)

// functions lists every function that the failing driver must have: those of cuda.h, and what the binary itself imports.
func functions(binary string) ([]string, error) {
	data, err := sources.ReadFile("csrc/names.txt")
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	for _, n := range strings.Fields(string(data)) {
		seen[n] = true
	}
	f, err := elf.Open(binary)
	var format *elf.FormatError
	switch {
	case errors.As(err, &format), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF): // a script
	case err != nil:
		return nil, err
	default:
		defer f.Close()
		symbols, err := f.ImportedSymbols()
		if err != nil && !errors.Is(err, elf.ErrNoSymbols) {
			return nil, fmt.Errorf("%s: %w", binary, err)
		}
		for _, s := range symbols {
			// cuBLAS and the others have names of their own: cublasCreate_v2 has no capital after cu.
			if functionName.MatchString(s.Name) {
				seen[s.Name] = true
			}
		}
	}
	var out []string
	for n := range seen {
		out = append(out, n)
	}
	sort.Strings(out)
	return out, nil
}

var written = regexp.MustCompile(`(?m)^API (cu\w+)\(`)

// text is the source of the failing driver.
func text(names []string) []byte {
	body, _ := sources.ReadFile("csrc/driver.c") // embedded: cannot fail
	has := map[string]bool{}
	for _, m := range written.FindAllSubmatch(body, -1) {
		has[string(m[1])] = true
	}
	var b bytes.Buffer
	b.Write(body)
	for _, n := range names {
		if !has[n] {
			fmt.Fprintf(&b, "NAME(%s)\n", n)
		}
	}
	b.WriteString("static const struct { const char *name; void *f; } table[] = {\n")
	for _, n := range names {
		fmt.Fprintf(&b, "{ %q, (void *)%s },\n", n, n)
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
	return b.Bytes()
}

// fallback finds the words in which programs say that they do without the GPU. It is data that ages: silence means nothing. Source:
// shared facts on proof, section 4.
var fallback = regexp.MustCompile(`(?i)(fall(s|ing)? ?back to (the )?cpu|cpu fallback|running on (the )?cpu|using (the )?cpu|no usable gpu found|no gpu found|` +
	`no cuda devices found, cuda will be disabled|gpu-layers option will be ignored|offloaded 0/\d+ layers|registered successfully; may fall back to cpu)`)

// judge decides what one run shows. It looks at nothing else.
func judge(m Mode, asked []string, r buildenv.Result) Outcome {
	o := Outcome{Mode: m.Name, What: m.What, Kind: Unsure, Asked: append([]string{}, asked...), Code: r.Code}
	in := bufio.NewScanner(bytes.NewReader(append(append(append([]byte{}, r.Stdout...), '\n'), r.Stderr...)))
	in.Buffer(nil, 4<<20)
	for in.Scan() && o.Said == "" {
		if fallback.Match(in.Bytes()) {
			o.Said = strings.TrimSpace(strings.ToValidUTF8(in.Text(), "?"))
			o.Said = o.Said[:min(len(o.Said), 160)]
		}
	}
	memory := false
	for _, f := range asked {
		memory = memory || strings.HasPrefix(f, "cuMemAlloc") && !strings.HasPrefix(f, "cuMemAllocHost") || strings.HasPrefix(f, "cuMemCreate")
	}
	missing := bytes.Contains(r.Stderr, []byte("symbol lookup error")) || bytes.Contains(r.Stderr, []byte("undefined symbol: cu"))
	switch {
	case r.TimedOut:
		o.Why = "it did not end in time"
	case r.Signal != "" && !(len(asked) > 0 && isAbort(r)):
		o.Why = "it was ended by " + r.Signal
	case missing:
		o.Why = "the failing driver lacks a function that it needs"
	case len(asked) == 0 && r.Code == 0:
		o.Why = "it ended with 0 and never asked for the driver: it is built without CUDA, was not told to use it, or looks for it elsewhere"
	case len(asked) == 0:
		o.Why = fmt.Sprintf("it ended with %d before it asked for the driver", r.Code)
	case r.Code != 0:
		o.Kind, o.Why = Honest, fmt.Sprintf("it asked for the driver and ended with %d", r.Code)
		if r.Signal != "" {
			o.Why = "it asked for the driver and was ended by " + r.Signal
		}
	case m.works && !memory:
		o.Why = "it ended with 0, but never asked for memory on the device"
	default:
		o.Kind, o.Why = FellBack, "it asked for the driver, was refused, and ended with 0: it did without the GPU"
		if o.Said != "" {
			o.Why += ", and said so"
		} else {
			o.Why += ", silently"
		}
	}
	return o
}

func isAbort(r buildenv.Result) bool { return r.Code == 128+6 }

// Worst answers what the outcomes come to: one fall back, else one that could not be told, else honesty.
func Worst(all []Outcome) Kind {
	worst := Honest
	if len(all) == 0 {
		worst = Unsure
	}
	for _, o := range all {
		switch {
		case o.Kind == FellBack:
			return FellBack
		case o.Kind != Honest:
			worst = Unsure
		}
	}
	return worst
}
