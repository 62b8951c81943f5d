// Package inputs lists what of the machine goes into a GPU package and cargo does not watch: the toolkit, the host compiler, headers,
// libraries, variables and the package's own kernels and headers, each with its content. It compares nothing and knows no target
// directory.
//
// Limits: what nvcc read is recorded, not found here; on Windows a file whose content was replaced with the same size and time is taken for
// the old one.
package inputs

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"
	"slices"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/lazyregexp"
	"gpubuild/buildenv/stale"
	"gpubuild/cmd/internal/tools"
	"gpubuild/features"
	"gpubuild/features/source"
	"gpubuild/gpu"
	"gpubuild/toolchain"
	"gpubuild/toolchain/cuda"
	"gpubuild/toolchain/hostcc"
	"gpubuild/toolchain/nvcc"
)

// Now is what of the machine a GPU package's build script would be run with now: the things that cargo does not watch. The driver is
// none of them: nothing that is built depends on it.
func Now(host buildenv.Host, chosen tools.Tools, u Unit, h *Hashes) []stale.Input {
	n := collector{host: host, set: chosen.Set, env: chosen.ScriptEnv(host), h: h, u: u, in: u.Inputs}
	names, paths := h.SourcesOf(u)
	n.parts(Sources, names, paths)
	n.nvcc()
	n.headers()
	n.includes()
	n.libraries()
	n.hostCompiler()
	n.others()
	n.torch()
	n.variables()
	return n.list
}

// collector gathers them.
type collector struct {
	host buildenv.Host
	set  toolchain.Set
	env  buildenv.Env
	h    *Hashes
	u    Unit
	in   features.Inputs
	list []stale.Input
}

// content hashes files as one.
func (n *collector) content(paths ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(n.h.Each(paths...), "\n")))
	return hex.EncodeToString(sum[:16])
}

// parts records files as parts of one input, each under the name that it is given; a package's own are shown by that.
func (n *collector) parts(of string, names, paths []string) {
	sums := n.h.Each(paths...)
	for i, name := range names {
		value := paths[i]
		if of == Sources {
			value = name
		}
		if sums[i] != "none" {
			n.add(stale.Part(of, name), value, sums[i])
		}
	}
}

func (n *collector) add(name, value, hash string) {
	n.list = append(n.list, stale.Input{Name: name, Value: value, Hash: hash})
}

// nvcc is the compiler with all that it runs; only the compiler where a script asks for its version alone.
func (n *collector) nvcc() {
	t := n.set.Toolkit
	if t == nil || !n.in.NVCC {
		return
	}
	files := CompilerFiles(n.host, t)
	n.add("nvcc", cmp.Or(t.Label, t.Version.String())+" "+t.NVCC, n.content(files[0]))
	if n.in.Version {
		return
	}
	var names []string
	for _, f := range files[1:] {
		names = append(names, strings.TrimSuffix(n.host.Base(f), ".exe"))
	}
	n.parts("nvcc", names, files[1:])
	first := append(n.host.LookPathAll("nvcc"), "")[0]
	for _, path := range n.set.Launchers {
		name := "nvcc launcher"
		if path == first { // who asks PATH gets it
			name += " on PATH"
		}
		n.add(name, path, n.content(path))
	}
}

// headers are the toolkit's from which a script reads a version, and those that a script searches for by itself. What kernels include is
// recorded by nvcc.
func (n *collector) headers() {
	if t := n.set.Toolkit; t != nil && (n.in.NVCC && !n.in.Version || n.in.Root) {
		n.add("CUDA headers", t.Version.String(), "")
		names := []string{"cuda.h", "cuda_runtime_api.h"}
		n.parts("CUDA headers", names, []string{n.host.Join(t.Include, names[0]), n.host.Join(t.Include, names[1])})
	}
	for _, w := range n.in.Headers {
		dirs := []string{}
		for _, v := range w.Vars {
			if root := n.env.Get(v); root != "" {
				dirs = append(dirs, n.host.Join(root, "include"))
			}
		}
		value, hash := "not found", ""
		for _, d := range append(dirs, w.Dirs...) {
			if p := n.host.Join(d, w.File); n.host.IsFile(p) {
				value, hash = p, n.content(p)
				break
			}
		}
		n.add(w.File, value, hash)
	}
}

// tree hashes the files below a directory that count, by name and content.
func (n *collector) tree(dir string, most int, counts func(path string) bool) string {
	paths, sum := n.h.filesBelow(dir, n.h.built, most, anywhere, counts), sha256.New()
	for i, sumOfOne := range n.h.Each(paths...) {
		fmt.Fprintln(sum, paths[i][len(dir):], sumOfOne)
	}
	return hex.EncodeToString(sum.Sum(nil)[:16])
}

// includes are the toolkit's headers as a whole, where nobody knows which of them are read, and unless they are the system's.
func (n *collector) includes() {
	t := n.set.Toolkit
	if t != nil && t.Include != "" && (n.u.Unknown || n.u.Inputs.Binds) && !source.Unchanging(n.host, t.Include) {
		n.add("CUDA include directory", t.Version.String()+" "+t.Include, n.tree(n.host.Real(t.Include), buildenv.MostEntries, anywhere))
	}
}

// linkable are the names by which a linker finds the toolkit's libraries; a patch level behind the number is none of them.
var linkable = lazyregexp.New(`^(lib)?(cu|nv|npp)[A-Za-z0-9_-]*\.(so(\.\d+)?|a|lib|dylib)$`)

// libraries are what a script that only links finds in the toolkit. It matters which are there, not what is in them: that is
// linked when the program is, and a static library is recorded itself; see linked.
func (n *collector) libraries() {
	t := n.set.Toolkit
	if t == nil || !n.in.Root || n.in.Host || t.Lib == "" {
		return
	}
	sum := sha256.New()
	for _, dir := range append([]string{t.Lib, t.Stubs}, t.Libs...) {
		fmt.Fprintln(sum, dir != "")
		for _, name := range n.host.Names(dir) {
			if linkable.MatchString(name) {
				fmt.Fprintln(sum, name)
			}
		}
	}
	n.add("CUDA libraries", t.Version.String()+" "+t.Lib, hex.EncodeToString(sum.Sum(nil)[:16]))
}

// hostCompiler is what nvcc calls, and what cc or CMake call for C++ sources. Of gcc only the driver is hashed: cc1plus comes in the
// same distribution package. What a script or a launcher leads to shows in the version, and in what nvcc's record lists.
func (n *collector) hostCompiler() {
	if c := n.set.Compiler; c != nil && n.in.Host {
		n.add("host compiler", c.Version+" "+c.Kind+" "+c.Path, n.content(c.Real, c.CXX)+" "+c.Version)
	}
	if v := n.set.MSVC; v != nil && (n.in.Host || n.in.CXX) {
		n.add("Windows SDK", v.SDK.Version+" "+v.SDK.Root+", C run-time library "+v.UCRT.Version, "")
	}
	if n.in.CXX && n.host.OS != buildenv.Windows {
		h := n.host
		h.Env = n.env
		word := cmp.Or(n.env.Get(hostcc.CXXWord(h)), "c++") // cc 1.x get_base_compiler, CMake's own first choice
		n.program("C++ compiler", word)
	}
}

// program records a program by its content, wherever it lies; one that cannot be found by its word alone.
func (n *collector) program(name, word string) {
	hash := ""
	if path := n.find(word); path != "" {
		hash = n.content(path)
	}
	n.add(name, word, hash)
}

// find returns the file that a word means as a program, without links; empty when there is none. Of several words, such as
// "ccache nvcc", it is the last that compiles.
func (n *collector) find(word string) string {
	h := n.host
	h.Env = n.env
	if h.IsAbs(word) && h.IsFile(word) {
		return h.Real(word)
	}
	words := strings.Fields(word)
	if len(words) == 0 {
		return ""
	}
	path, err := h.LookPath(words[len(words)-1])
	if err != nil {
		return ""
	}
	return h.Real(path)
}

// others are the architecture and cuDNN.
func (n *collector) others() {
	if n.in.Arch && !n.set.Capability.IsZero() {
		n.add("arch", gpu.Archs(n.set.Archs()), "")
	}
	if c := n.set.CUDNN; c != nil && n.in.CUDNN {
		n.add("cuDNN", c.Version+" "+c.Root, n.content(n.host.Join(c.Include, "cudnn_version.h"), n.host.Join(c.Include, "cudnn.h")))
	}
}

// torch is the Python whose libtorch torch-sys links. One that is named by a variable is cargo's to watch, and what is in it is recorded;
// see linked.
func (n *collector) torch() {
	if _, python := n.env.Lookup("LIBTORCH_USE_PYTORCH"); n.in.Torch && python {
		n.add("libtorch", "of Python, "+cmp.Or(n.env.Get("VIRTUAL_ENV"), n.find("python3"), "not found"), "")
	}
}

// variables are those that the catalog knows, that texts name in capitals, and that nvcc and the host compiler read, whoever calls them, as
// far as their meaning is not recorded above.
func (n *collector) variables() {
	var words []string
	if n.u.Script.Source != "" {
		words = n.h.reader.Words(n.h.reader.TextOf(n.u.Script, n.u.Dir), n.u.Dir)
	}
	for _, name := range slices.Sorted(slices.Values(n.env.Names())) {
		v := n.env.Get(name)
		like := func(want string) bool {
			is, _ := path.Match(want, name) // the catalog has some with a *
			return is
		}
		counts := slices.ContainsFunc(n.in.Env, like) || slices.Contains(words, name)
		if n.in.NVCC && !n.in.Version && nvcc.Reads(name, n.host.OS) { // to which one that is blank is none
			counts = strings.TrimSpace(v) != ""
		}
		switch {
		case !counts || ignored(name):
		case name == "NVCC" || name == "CUDACXX":
			// said or not, the toolkit's own is what is recorded above
			wrapped := len(strings.Fields(v)) > 1 && !n.host.IsAbs(v) // ccache nvcc
			if t := n.set.Toolkit; t == nil || wrapped || !n.host.SamePath(n.find(v), n.host.Real(t.NVCC)) {
				n.program(name, v)
			}
		case name == "CUDAHOSTCXX" || name == "CANDLE_NVCC_CCBIN":
			n.program(name, v)
		case name == "INCLUDE" && n.host.OS == buildenv.Windows:
			v = n.foreignIncludes(v)
			n.add(name, v, n.named(v))
		default:
			n.add(name, v, n.named(v))
		}
	}
}

// named hashes a variable's value, and of each path in it the content of the file, or of the C, C++ and CUDA files in the directory. The
// roots of the toolkit and the system's directories count by identity, and by what is read of them.
func (n *collector) named(value string) string {
	parts := strings.FieldsFunc(value, func(r rune) bool { return strings.ContainsRune(" \t\n=,;\"'@", r) })
	parts = append(append(parts, n.host.SplitList(value)...), value)
	sum, seen := sha256.New(), map[string]bool{}
	shown := value
	if t := n.set.Toolkit; t != nil { // the same toolkit in another place is the same
		for _, root := range []string{t.Real, t.Root} {
			shown = strings.ReplaceAll(strings.ReplaceAll(shown, root+"/", "toolkit/"), root, "toolkit")
		}
	}
	fmt.Fprintln(sum, strings.TrimRight(shown, `/\`))
	for _, p := range parts {
		p = source.WithoutFlag(p)
		path := n.host.From(n.u.Dir, p)
		switch t := n.set.Toolkit; {
		case p == "" || seen[path] || path == n.u.Dir:
		case t != nil && (n.host.Below(n.host.Real(path), t.Real) || n.host.Below(path, t.Root)) && shown != value:
		case source.Unchanging(n.host, path) || n.host.Dir(path) == path || n.host.SamePath(path, n.host.Home) ||
			n.host.Below(n.h.m.CacheDir, path):
		case n.host.IsFile(path):
			fmt.Fprintln(sum, n.content(path))
		case n.host.IsDir(path):
			fmt.Fprintln(sum, n.tree(n.host.Real(path), mostNamed, func(path string) bool { return Compiled(n.host, path) }))
		}
		seen[path] = true
	}
	return hex.EncodeToString(sum.Sum(nil)[:16])
}

// foreignIncludes leaves of INCLUDE, which is as long as the developer's prompt makes it, what is of neither MSVC nor the Windows SDK:
// those are recorded themselves.
func (n *collector) foreignIncludes(v string) string {
	known := func(dir string) bool {
		low, vs := strings.ToLower(strings.ReplaceAll(dir, "/", `\`)), n.set.MSVC
		return vs != nil && (n.host.Below(dir, vs.SDK.Root) || n.host.Below(dir, vs.UCRT.Root)) ||
			strings.Contains(low, `\vc\tools\msvc\`) || strings.Contains(low, `\windows kits\`) || strings.Contains(low, `\vc\auxiliary\`)
	}
	return n.host.JoinList(slices.DeleteFunc(n.host.SplitList(v), known)...)
}

// ignored reports whether a variable only names what is recorded by content already, or changes nothing that is built; whether cargo sets
// it for build scripts, reads it itself or watches it (cargo reference, "Environment Variables"); or whether it says where and for whom
// something runs.
func ignored(name string) bool {
	switch name {
	case "CUDA_HOME", "CUDA_PATH", "CUDA_ROOT", "CUDA_TOOLKIT_ROOT_DIR", "CUDA_TOOLKIT_PATH", "NVCC_CCBIN", "CUDA_COMPUTE_CAP", "CUDNN_LIB", "CUDNN_PATH",
		"CUDNN_HOME", "CUDAFORGE_THREADS", "RAYON_NUM_THREADS", "CMAKE_BUILD_PARALLEL_LEVEL", "LIBTORCH", "LIBTORCH_LIB",
		"LIBTORCH_INCLUDE", "VIRTUAL_ENV", "CXX",
		"CARGO", "OUT_DIR", "TARGET", "HOST", "NUM_JOBS", "OPT_LEVEL", "PROFILE", "DEBUG", "RUSTC", "RUSTDOC", "RUSTFLAGS", "RUSTDOCFLAGS",
		"RUSTC_WRAPPER", "RUSTC_LINKER", "RUSTC_WORKSPACE_WRAPPER", "RUST_BACKTRACE", "RUST_LOG", "RUSTUP_HOME", "RUSTUP_TOOLCHAIN",
		"CARGO_HOME", "CARGO_INCREMENTAL", "CARGO_MAKEFLAGS", "CARGO_LOG", "PATH", "LD_LIBRARY_PATH", "LIBRARY_PATH", "HOME", "TERM",
		"LANG", "PWD", "OLDPWD", "IFS", "SHELL", "SHLVL", "USER", "LOGNAME", "HOSTNAME", "TMPDIR", "TMP", "TEMP", "MAKE", "MAKEFLAGS",
		"MFLAGS", "DISPLAY", "COLUMNS", "LINES", "LANGUAGE", "NOCOLOR", "LD_PRELOAD":
		return true
	}
	for _, prefix := range []string{"DEP_", "LC_", "GPUBUILD_", "CARGO_CFG_", "CARGO_FEATURE_", "CARGO_PKG_", "CARGO_MANIFEST_",
		"CARGO_ENCODED_", "CARGO_TARGET_", "CARGO_BUILD_", "CARGO_NET_", "CARGO_TERM_", "CARGO_PROFILE_", "CARGO_HTTP_", "CARGO_REGISTR",
		"CARGO_UNSTABLE_", "CARGO_RUSTC_", "CARGO_ALIAS_", "CARGO_CACHE_", "CARGO_BIN_", "SSH_", "XDG_"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// CompilerFiles lists nvcc, what it runs, and what it reads by itself.
func CompilerFiles(h buildenv.Host, t *cuda.Toolkit) []string {
	bin := h.Dir(h.Real(t.NVCC))
	root := h.Dir(bin)
	files := []string{h.Real(t.NVCC)}
	for _, name := range []string{"ptxas", "fatbinary", "cudafe++", "nvlink", "bin2c"} {
		files = append(files, h.Join(bin, h.Exe(name)))
	}
	files = append(files, h.Join(bin, "nvcc.profile"), h.Join(root, "nvvm", "bin", h.Exe("cicc")),
		h.Join(root, "nvvm", "libdevice", "libdevice.10.bc"))
	crt := h.Join(t.Include, "crt")
	for _, name := range h.Names(crt) {
		files = append(files, h.Join(crt, name))
	}
	return files
}
