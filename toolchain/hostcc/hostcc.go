package hostcc

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"gpubuild/buildenv"
	"gpubuild/buildenv/lazyregexp"
	"gpubuild/gpu"
)

// Kinds of compiler.
const (
	GCC   = "gcc"
	Clang = "clang"
	MSVC  = "msvc"
)

// Compiler is one host compiler.
type Compiler struct {
	Path    string `json:"path"`          // the C compiler; the C++ one where there is no other
	CXX     string `json:"cxx,omitempty"` // the C++ compiler, which nvcc's -ccbin and NVCC_CCBIN take; empty when there is none
	Real    string `json:"real"`          // Path without links
	Kind    string `json:"kind"`          // gcc, clang or msvc
	Version string `json:"version"`       // such as 12.2.0, or only 12
	Major   int    `json:"major"`         // for msvc: _MSC_VER
	Origin  string `json:"origin"`        // PATH, a directory, or the variable that names it
	Word    string `json:"word,omitempty"`
	Default bool   `json:"default,omitempty"`  // nvcc takes it by default
	NVCCDir string `json:"nvcc_dir,omitempty"` // only the nvcc of this directory takes it by default: Debian's
	CCrate  bool   `json:"-"`                  // the cc crate takes it by default: c++ of PATH
	Problem string `json:"problem,omitempty"`  // why it is of no use to nvcc
	// MinCUDA is the oldest CUDA that the compiler's own standard library lets
	// through, and MinCUDAText where it says so: only MSVC's does.
	MinCUDA     gpu.Version `json:"min_cuda"`
	MinCUDAText string      `json:"min_cuda_text,omitempty"`
}

// Named is the compiler as a person reads it: "gcc 12.2.0 (/usr/bin/gcc)".
func (c Compiler) Named() string {
	if c.Version == "" {
		return c.Path
	}
	return fmt.Sprintf("%s %s (%s)", c.Kind, c.Version, c.Path)
}

// Words lists the variables by which a user names a host compiler, the strongest first. CXX and CC mean the compiler of C++ and C sources
// and say something of nvcc's only when what nvcc takes by itself does not do.
func Words() []string { return []string{"NVCC_CCBIN", "CUDAHOSTCXX", "HOST_COMPILER", "CXX", "CC"} }

// CXXWord is the variable from which the cc crate takes the C++ compiler of this machine's own programs: the first of these that is set
// (cc 1.2, target_envs).
func CXXWord(h buildenv.Host) string {
	triple := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[h.Arch] + "-unknown-linux-gnu"
	for _, name := range []string{"CXX_" + triple, "CXX_" + strings.ReplaceAll(triple, "-", "_"), "HOST_CXX"} {
		if h.Env.Get(name) != "" {
			return name
		}
	}
	return "CXX"
}

const (
	most    = 24              // compilers that are listed at most: a PATH may hold any number
	patient = 5 * time.Second // for an answer of one compiler
)

// Find lists the compilers of a machine: those that the user named first, then what nvcc takes by itself, then the others, newest first.
// Every place is looked at; only compilers whose names do not contain their version are run. asked are paths or names that the user gave by
// other means than a variable.
func Find(ctx context.Context, h buildenv.Host, run buildenv.Runner, asked ...string) []Compiler {
	f := finder{h: h}
	for _, path := range asked {
		if path != "" {
			f.named(path, Asked, Asked)
		}
	}
	f.words()
	f.defaults()
	f.rest()
	f.ofCCrate()
	for i := range f.found {
		f.complete(ctx, run, &f.found[i])
	}
	slices.SortStableFunc(f.found, func(a, b Compiler) int {
		if ra, rb := rank(a), rank(b); ra != rb || ra < last {
			return ra - rb
		}
		return b.Major - a.Major
	})
	return f.found
}

// Asked is the Word of a compiler that the user gave by other means than a variable.
const Asked = "asked for"

const last = 100

func rank(c Compiler) int {
	if c.Word == Asked {
		return -1
	}
	if i := slices.Index(Words(), c.Word); i >= 0 {
		return i
	}
	switch {
	case c.NVCCDir != "":
		return 50
	case c.Default:
		return 60
	case c.Kind == Clang:
		return last + 1
	}
	return last
}

// finder collects the compilers of one machine.
type finder struct {
	h     buildenv.Host
	found []Compiler
}

// name matches what a compiler is called: gcc, g++-13, clang, clang++-18, Debian's x86_64-linux-gnu-g++-12.
var name = lazyregexp.New(
	`^(?:[a-z0-9_]+-(?:pc-|unknown-|redhat-|suse-|conda-)?linux-gnu-)?(gcc|g\+\+|clang|clang\+\+|cc|c\+\+)(?:-(\d{1,3})(?:\.\d+)*)?$`,
)

// pair returns the C and the C++ compiler that belong together, by their names in one directory.
func (f *finder) pair(path string) (c, cxx, kind string, ok bool) {
	h := f.h
	dir, base := h.Dir(path), h.Base(path)
	m := name.FindStringSubmatchIndex(base)
	if m == nil {
		return path, path, "", false
	}
	word, before, after := base[m[2]:m[3]], base[:m[2]], base[m[3]:]
	if kind = GCC; strings.HasPrefix(word, "clang") {
		kind = Clang
	}
	ofC := strings.NewReplacer("clang++", "clang", "g++", "gcc", "c++", "cc").Replace(word)
	if p := h.Join(dir, before+ofC+after); h.IsFile(p) {
		c = p
	}
	if p := h.Join(dir, before+cplusplus(ofC)+after); h.IsFile(p) {
		cxx = p
	}
	c = cmp.Or(c, cxx)
	return c, cxx, kind, c != ""
}

func (f *finder) add(path string, add Compiler) {
	h := f.h
	c, cxx, kind, ok := f.pair(path)
	if !ok && !h.IsFile(path) {
		if add.Word != "" {
			add.Path, add.Real, add.Problem = path, path, "it does not exist"
			f.found = append(f.found, add)
		}
		return
	}
	add.Path, add.CXX, add.Kind = c, cxx, kind
	add.Real = h.Real(c)
	if add.CXX == "" { // gcc may be a link to gcc-12 where only g++-12 has no short name
		_, add.CXX, _, _ = f.pair(add.Real)
	}
	for i, o := range f.found {
		if h.SamePath(o.Real, add.Real) && (o.CXX == "") == (add.CXX == "") {
			f.found[i].Default = o.Default || add.Default
			if o.NVCCDir == "" {
				f.found[i].NVCCDir = add.NVCCDir
			}
			return
		}
	}
	if len(f.found) < most {
		f.found = append(f.found, add)
	}
}

// words takes the compilers that the user named. A launcher such as ccache before the name is passed over.
func (f *finder) words() {
	h := f.h
	for _, word := range Words() {
		v := word
		if v == "CXX" {
			v = CXXWord(h)
		}
		words := strings.Fields(h.Env.Get(v))
		for len(words) > 1 && (strings.HasSuffix(words[0], "ccache") || strings.HasSuffix(words[0], "distcc")) {
			words = words[1:]
		}
		if len(words) == 0 {
			continue
		}
		path := words[0]
		if value := h.Env.Get(v); h.IsAbs(value) && h.IsFile(value) {
			path = value // a path with spaces
		}
		f.named(path, word, v)
	}
}

func (f *finder) named(path, word, variable string) {
	h := f.h
	if !strings.ContainsAny(path, `/\`) {
		found, err := h.LookPath(path)
		if err != nil {
			f.found = append(f.found, Compiler{Path: path, Real: path, Origin: variable, Word: word, Problem: "it is not on PATH"})
			return
		}
		path = found
	}
	path = h.Abs(path)
	if h.IsDir(path) { // -ccbin takes a directory, too
		path = h.Join(path, "g++")
	}
	f.add(path, Compiler{Origin: variable, Word: word})
}

// defaults takes what nvcc calls without -ccbin on its command line: the -ccbin in its own variables, else the first gcc on PATH;
// Debian's nvcc searches its own directory first.
func (f *finder) defaults() {
	h := f.h
	const debian = "/usr/lib/nvidia-cuda-toolkit/bin"
	if h.IsFile(debian + "/g++") {
		f.add(debian+"/g++", Compiler{Origin: debian, NVCCDir: debian})
	}
	for _, v := range FlagVariables() {
		path, _ := FromFlags(h.Env.Get(v))
		if path == "" {
			continue
		}
		path = strings.Trim(path, `"'`)
		if !strings.ContainsAny(path, `/\`) {
			if p, err := h.LookPath(path); err == nil {
				path = p
			}
		}
		if h.IsAbs(path) {
			if h.IsDir(path) {
				path = h.Join(path, "g++")
			}
			f.add(path, Compiler{Origin: v, Default: true})
			return
		}
	}
	if p, err := h.LookPath("gcc"); err == nil {
		f.add(p, Compiler{Origin: "PATH", Default: true})
	}
}

var plain = lazyregexp.New(`^(gcc|g\+\+|clang|clang\+\+)(-\d{1,3})?$`)

// usual lists places of compilers that are not on PATH: LLVM's own packages, and the newer gccs that Red Hat ships in
// addition to the system's for those who ask for them ("scl enable gcc-toolset-13"); they run without that, by their path. Source: the
// file lists of gcc-toolset-13-gcc-c++ (RHEL 9), devtoolset-11-gcc-c++ (CentOS 7) and clang-18 (apt.llvm.org).
func (f *finder) usual() (dirs []string) {
	below := func(dir, prefix string, rest ...string) {
		for _, name := range slices.Backward(f.h.Names(dir)) {
			if strings.Contains(name, prefix) {
				dirs = append(dirs, f.h.Join(append([]string{dir, name}, rest...)...))
			}
		}
	}
	dirs = append(dirs, "/usr/bin", "/usr/local/bin")
	below("/opt/rh", "toolset-", "root", "usr", "bin")
	below("/usr/lib", "llvm-", "bin")
	return dirs
}

// rest takes every other compiler on PATH and in the usual places.
func (f *finder) rest() {
	h := f.h
	if h.OS == buildenv.Windows {
		return
	}
	dirs := h.SplitList(h.Env.Get("PATH"))
	dirs = append(dirs, f.usual()...)
	seen := map[string]bool{}
	for _, dir := range dirs {
		real := h.Real(h.Clean(dir)) // /bin is /usr/bin once more
		if !h.IsAbs(dir) || seen[real] || h.IsWSL() && h.Below(dir, "/mnt") {
			continue
		}
		seen[real] = true
		for _, name := range h.Names(dir) {
			if name[0] != 'g' && name[0] != 'c' { // of the thousands in /usr/bin
				continue
			}
			// LLVM's own directory has the number in its name; clang-17 there is clang once more, without a C++ name.
			if plain.MatchString(name) && !(strings.Contains(dir, "/llvm-") && strings.Contains(name, "-")) {
				f.add(h.Join(dir, name), Compiler{Origin: dir})
			}
		}
	}
}

// ofCCrate marks the c++ of PATH, or adds it where it is none of the others.
func (f *finder) ofCCrate() {
	path, err := f.h.LookPath("c++")
	if err != nil || f.h.OS == buildenv.Windows {
		return
	}
	real := f.h.Real(path)
	i := slices.IndexFunc(f.found, func(c Compiler) bool { return c.CXX != "" && f.h.SamePath(f.h.Real(c.CXX), real) })
	if i < 0 {
		i, f.found = len(f.found), append(f.found, Compiler{Path: path, CXX: path, Real: real, Kind: GCC, Origin: "PATH"})
	}
	f.found[i].CCrate = true
}

// llvm matches where LLVM's own packages keep a compiler.
var llvm = lazyregexp.New(`/llvm-(\d{1,3})/bin/clang(?:\+\+)?$`)

// complete adds version and problem.
func (f *finder) complete(ctx context.Context, run buildenv.Runner, c *Compiler) {
	if c.Problem != "" {
		return
	}
	if m := llvm.FindStringSubmatch(c.Real); m != nil {
		c.Kind, c.Version = Clang, m[1]
	} else if m := name.FindStringSubmatch(f.h.Base(c.Real)); m != nil && m[2] != "" && f.h.Below(c.Real, "/usr") {
		c.Version = m[2]
		if strings.HasPrefix(m[1], Clang) {
			c.Kind = Clang
		}
	} else if run != nil {
		if err := ask(ctx, f.h, run, c); err != nil {
			c.Problem = "it does not answer --version: " + firstLine(err.Error())
			return
		}
	}
	c.Major, _ = strconv.Atoi(strings.SplitN(c.Version, ".", 2)[0])
	switch {
	case c.Major == 0:
		c.Problem = "its version is unknown"
	case c.CXX == "":
		c.Problem = "nvcc also needs " + cplusplus(f.h.Base(c.Path)) + ", which is missing"
	}
}

// cplusplus is what the C++ compiler next to a C compiler is called.
func cplusplus(c string) string {
	return strings.NewReplacer("clang", "clang++", "gcc", "g++", "cc", "c++").Replace(c)
}

var (
	gccVersion   = lazyregexp.New(`\b(\d+\.\d+(?:\.\d+)?)\b`)
	clangVersion = lazyregexp.New(`clang version (\d+(?:\.\d+)*)`)
)

// ask runs the compiler. A command of that name may be either kind: on FreeBSD and macOS gcc is clang.
func ask(ctx context.Context, h buildenv.Host, run buildenv.Runner, c *Compiler) error {
	r, err := run.Run(ctx, Command(h, *c))
	if err != nil {
		return err
	}
	out := string(r.Stdout)
	if m := clangVersion.FindStringSubmatch(out); m != nil {
		c.Kind, c.Version = Clang, m[1]
		return nil
	}
	c.Kind = GCC
	// "gcc (Debian 12.2.0-14) 12.2.0": the last number of the first line, the
	// one in brackets is the packager's. Red Hat adds a date behind.
	line, _, _ := strings.Cut(out, "\n")
	if at := strings.LastIndex(line, ")"); at >= 0 {
		if m := gccVersion.FindString(line[at:]); m != "" {
			c.Version = m
			return nil
		}
	}
	c.Version = gccVersion.FindString(line)
	return nil
}

// Command is how a compiler is asked for its version.
func Command(h buildenv.Host, c Compiler) buildenv.Cmd {
	env := h.Env.Set("LC_ALL", "C")
	return buildenv.Cmd{Path: c.Path, Args: []string{"--version"}, Env: env.Entries(), Timeout: patient, Limit: 1 << 16}
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return strings.TrimSuffix(s, ":")
}
