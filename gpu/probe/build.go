package probe

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"time"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
)

//go:embed csrc
var sources embed.FS

// runner is all that building asks of the world.
type runner interface {
	Run(ctx context.Context, c buildenv.Cmd) (buildenv.Result, error)
}

// Variables that the probe reads.
const (
	InjectionVariable = "CUDA_INJECTION64_PATH" // the CUDA driver loads what it names
	DirVariable       = "GPUBUILD_PROBE_DIR"    // where the records go
	CUPTIVariable     = "GPUBUILD_PROBE_CUPTI"  // the libcupti to load
)

// Probe is the built programs. Control and Watch are empty where only a library was given: then nothing can be Proved or NotUsed.
type Probe struct {
	Library    string `json:"library"`           // the injection library
	Control    string `json:"control,omitempty"` // the positive control
	Watch      string `json:"watch,omitempty"`   // the parent of the watched program
	SourceHash string `json:"source_hash,omitempty"`
	Digest     string `json:"digest"` // SHA-256 of the library
	Origin     string `json:"origin"`
}

// part is one program to be compiled.
type part struct {
	source, name string
	shared       bool
}

func parts(os string) []part {
	if os == buildenv.Windows {
		return []part{
			{"probe.c", "gpubuild_probe.dll", true},
			{"control.c", "gpubuild-control.exe", false},
			{"watch_windows.c", "gpubuild-watch.exe", false},
		}
	}
	return []part{
		{"probe.c", "libgpubuild_probe.so", true},
		{"control.c", "gpubuild-control", false},
		{"watch.c", "gpubuild-watch", false},
	}
}

// Compiler is what builds the probe.
type Compiler struct {
	Path string
	CL   bool         // it takes cl's options: Microsoft's cl; else gcc's: gcc and clang
	Env  buildenv.Env // what it runs in, for cl with INCLUDE and LIB; the zero value: the machine's own
}

const stamp = "built.json"

// built is what stands in the stamp beside the programs.
type built struct {
	Schema   int               `json:"schema"`
	Compiler string            `json:"compiler"`
	Digests  map[string]string `json:"digests"` // SHA-256 by file name
}

// by is the compiler's path, which stands first in its identity, quoted: C:\Program Files has a space.
func (b built) by() string {
	quoted, err := strconv.QuotedPrefix(b.Compiler)
	if err != nil {
		return b.Compiler
	}
	path, _ := strconv.Unquote(quoted) // what QuotedPrefix answers can be unquoted
	return path
}

// SourceHash answers the SHA-256 of the C sources that this gpubuild carries.
func SourceHash() string {
	all := Sources()
	names := make([]string, 0, len(all))
	for name := range all {
		names = append(names, name)
	}
	sort.Strings(names)
	sum := sha256.New()
	for _, name := range names {
		fmt.Fprintf(sum, "%s %d\n%s", name, len(all[name]), all[name])
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// Sources answers the C files that this gpubuild carries, by name.
func Sources() map[string]string {
	out := map[string]string{}
	entries, _ := sources.ReadDir("csrc") // embedded: cannot fail
	for _, e := range entries {
		data, _ := sources.ReadFile("csrc/" + e.Name())
		out[e.Name()] = string(data)
	}
	return out
}

// compile is the command that makes one part; a value, so that tests can compare it.
func compile(h buildenv.Host, c Compiler, dir, out string, p part) buildenv.Cmd {
	return Compile(h, c, dir, h.Join(dir, p.source), h.Join(out, p.name), p.shared)
}

// Compile is the command that makes a program, or a library that is loaded into others' processes, of one C file.
func Compile(h buildenv.Host, c Compiler, dir, source, target string, shared bool) buildenv.Cmd {
	env := c.Env
	if len(env.Names()) == 0 {
		env = h.Env
	}
	var args []string
	switch {
	case c.CL:
		// The C library is linked into the library (/MT): one that is loaded
		// into a foreign process must bring no other that it has to find.
		args = []string{"/nologo", "/TC", "/utf-8", "/W3", "/O2", "/MT"}
		if shared {
			args = append(args, "/LD")
		}
		args = append(args, "/Fo:"+target+".obj", "/Fe:"+target, source)
		// Options from here would come before and behind ours (Microsoft, "CL environment variables", "LINK environment variables").
		for _, name := range []string{"CL", "_CL_", "LINK", "_LINK_"} {
			env = env.Unset(name)
		}
	case h.OS == buildenv.Windows:
		args = []string{"-std=c11", "-O2", "-static", "-o", target}
		if shared {
			args = append(args, "-shared")
		}
		args = append(args, source)
	default:
		args = []string{"-std=c11", "-O2", "-pthread", "-o", target}
		if shared {
			args = append(args, "-shared", "-fPIC", "-fvisibility=hidden", "-Wl,-z,nodelete")
		}
		args = append(args, source, "-ldl")
	}
	return buildenv.Cmd{
		Path: c.Path, Args: args, Dir: dir, Env: env.Set("LC_ALL", "C").Entries(),
		Timeout: 2 * time.Minute, Limit: 1 << 20,
	}
}

// canBuild says whether there is a probe for a machine: its source knows these.
func canBuild(h buildenv.Host) bool {
	return h.OS == buildenv.Linux || h.OS == buildenv.Windows && h.Arch != "arm64"
}

// NoCompilerError says that there is nothing to build the probe with.
type NoCompilerError struct{ OS, Arch string }

func (e *NoCompilerError) Error() string {
	switch {
	case !canBuild(buildenv.Host{OS: e.OS, Arch: e.Arch}):
		return strings.TrimSpace("the probe cannot be built on "+e.OS+" "+e.Arch) + " yet"
	case e.OS == buildenv.Windows:
		return "no host compiler (cl, gcc or clang) to build the probe with"
	}
	return "no host compiler (gcc or clang) to build the probe with"
}

// ExitCode is exit.Missing.
func (e *NoCompilerError) ExitCode() int { return exit.Missing }

// Hint says what a user can do about it.
func (e *NoCompilerError) Hint() string {
	switch {
	case !canBuild(buildenv.Host{OS: e.OS, Arch: e.Arch}):
		return "prove on Linux or on Windows x86_64, or give a library with prove --probe FILE"
	case e.OS == buildenv.Windows:
		return "install Microsoft's C++ build tools (winget install Microsoft.VisualStudio.2022.BuildTools), or give a library " +
			"that was built elsewhere with prove --probe FILE"
	}
	return "install gcc, or give a library that was built elsewhere with prove --probe FILE"
}

// BuildError says that the compiler refused a source.
type BuildError struct {
	Source string
	Err    error
}

func (e *BuildError) Error() string {
	return fmt.Sprintf("building the probe's %s: %v", e.Source, e.Err)
}
func (e *BuildError) Unwrap() error { return e.Err }

// Hint says what a user can do about it.
func (e *BuildError) Hint() string {
	if strings.Contains(e.Err.Error(), "No space left on device") {
		return (&CacheError{}).Hint()
	}
	return "try another host compiler (its C library's headers must be installed), or prove --probe FILE"
}

// Build answers the probe in cacheDir, and compiles it when it is not there, was built from other sources or by another compiler, or is
// no longer what was built. It is built beside and renamed, so that it is there whole or not at all, also when two build at once.
func Build(ctx context.Context, h buildenv.Host, run runner, cacheDir string, compiler Compiler) (Probe, error) {
	if !canBuild(h) || compiler.Path == "" {
		return Probe{}, &NoCompilerError{OS: h.OS, Arch: h.Arch}
	}
	fi, err := h.Files.Stat(compiler.Path)
	if err != nil {
		return Probe{}, fmt.Errorf("host compiler: %w", err)
	}
	source := SourceHash()
	id := fmt.Sprintf("%q %d %d %s", h.Real(compiler.Path), fi.Size(), fi.ModTime().UnixNano(), h.Arch)
	key := sha256.Sum256([]byte(source + "\n" + id))
	home := filepath.Join(cacheDir, "probe")
	dir := filepath.Join(home, hex.EncodeToString(key[:12]))
	if err := private(home); err != nil {
		return Probe{}, err
	}
	if p, err := check(h, dir, source); err == nil {
		return p, nil
	}
	tmp, err := os.MkdirTemp(home, ".build-")
	if err != nil {
		return Probe{}, &CacheError{Dir: home, Err: err}
	}
	defer os.RemoveAll(tmp)
	b := built{Schema: 1, Compiler: id, Digests: map[string]string{}}
	for name, text := range Sources() {
		if err := os.WriteFile(filepath.Join(tmp, name), []byte(text), 0o600); err != nil {
			return Probe{}, &CacheError{Dir: home, Err: err}
		}
	}
	for _, p := range parts(h.OS) {
		if _, err := run.Run(ctx, compile(h, compiler, tmp, tmp, p)); err != nil {
			if ctx.Err() != nil {
				return Probe{}, ctx.Err()
			}
			return Probe{}, &BuildError{Source: p.source, Err: err}
		}
		if b.Digests[p.name], err = digest(filepath.Join(tmp, p.name)); err != nil {
			return Probe{}, &BuildError{Source: p.source, Err: err}
		}
		if err := os.Chmod(filepath.Join(tmp, p.name), 0o700); err != nil {
			return Probe{}, &CacheError{Dir: home, Err: err}
		}
	}
	data, err := json.Marshal(b)
	if err != nil {
		return Probe{}, err
	}
	if err := os.WriteFile(filepath.Join(tmp, stamp), data, 0o600); err != nil {
		return Probe{}, &CacheError{Dir: home, Err: err}
	}
	if err := os.Rename(tmp, dir); err != nil {
		// Another gpubuild was faster, or what stands there is damaged.
		if p, err := check(h, dir, source); err == nil {
			return p, nil
		}
		if err := os.RemoveAll(dir); err != nil {
			return Probe{}, &CacheError{Dir: home, Err: err}
		}
		if err := os.Rename(tmp, dir); err != nil {
			return Probe{}, &CacheError{Dir: home, Err: err}
		}
	}
	return check(h, dir, source)
}

// CacheError says that the cache could not be written.
type CacheError struct {
	Dir string
	Err error
}

func (e *CacheError) Error() string { return fmt.Sprintf("the probe's cache %s: %v", e.Dir, e.Err) }
func (e *CacheError) Unwrap() error { return e.Err }

// Hint says what a user can do about it.
func (e *CacheError) Hint() string {
	return "make room or set GPUBUILD_CACHE to a directory that can be written"
}

// private makes a directory that only its owner can enter: whoever can write there has code in every watched process.
func private(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return &CacheError{Dir: dir, Err: err}
	}
	fi, err := os.Lstat(dir)
	if err != nil {
		return &CacheError{Dir: dir, Err: err}
	}
	if !fi.IsDir() {
		return &CacheError{Dir: dir, Err: errors.New("is not a directory")}
	}
	if fi.Mode().Perm()&0o077 != 0 {
		if err := os.Chmod(dir, 0o700); err != nil {
			return &CacheError{Dir: dir, Err: err}
		}
	}
	return nil
}

// check answers the probe in dir if every file is still what was built.
func check(h buildenv.Host, dir, source string) (Probe, error) {
	data, err := readBounded(filepath.Join(dir, stamp), 64<<10)
	if err != nil {
		return Probe{}, err
	}
	var b built
	if err := json.Unmarshal(data, &b); err != nil {
		return Probe{}, fmt.Errorf("%s: %w", filepath.Join(dir, stamp), err)
	}
	if err := private(dir); err != nil {
		return Probe{}, err
	}
	p := Probe{SourceHash: source, Origin: "built by " + b.by()}
	for i, to := range []*string{&p.Library, &p.Control, &p.Watch} {
		*to = filepath.Join(dir, parts(h.OS)[i].name)
		sum, err := digest(*to)
		if err != nil {
			return Probe{}, err
		}
		if sum != b.Digests[parts(h.OS)[i].name] {
			return Probe{}, fmt.Errorf("%s is not what was built", *to)
		}
	}
	p.Digest = b.Digests[parts(h.OS)[0].name]
	return p, nil
}

// FromFile takes a library that was built elsewhere. The control and the watcher are taken from beside it when they stand there.
func FromFile(h buildenv.Host, library string) (Probe, error) {
	library = h.Abs(library)
	sum, err := digest(library)
	if err != nil {
		return Probe{}, fmt.Errorf("probe: %w", err)
	}
	p := Probe{Library: library, Digest: sum, Origin: "given"}
	for _, beside := range []struct {
		to   *string
		name string
	}{{&p.Control, h.Exe("gpubuild-control")}, {&p.Watch, h.Exe("gpubuild-watch")}} {
		if at := h.Join(h.Dir(library), beside.name); h.IsFile(at) {
			*beside.to = at
		}
	}
	return p, nil
}

func digest(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if fi, err := f.Stat(); err != nil || !fi.Mode().IsRegular() {
		return "", &fs.PathError{Op: "open", Path: path, Err: errors.New("is not a file")}
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

func readBounded(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, limit))
}
