// Package buildenv says what a machine is to a build and what a build needs of it, as plain values.
//
// A Host is a snapshot: operating system, environment, files, registry. An Env is a set of variables with the platform's own rules
// for their names; a Delta is a list of changes to it, each with its reason; a Cmd is a process to be started and a Result what came of
// it. Nothing here touches the machine: buildenv/local makes the real Host, buildenv/proc runs a Cmd.
//
// ReadTOML reads with go-toml, which takes a tenth of the time of BurntSushi/toml, up to the size at which it becomes slower.
//
// Paths are strings by the host's own rules, so that a Windows machine can be looked at on Linux. Only absolute paths and paths below
// them are understood; Host.Abs and Host.From make one of what a user wrote, of "C:x", too.
package buildenv

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// Operating systems as Go names them.
const (
	Linux   = "linux"
	Windows = "windows"
	Darwin  = "darwin"
)

// Files reads a machine's files by that machine's own absolute paths. Errors satisfy errors.Is with fs.ErrNotExist and fs.ErrPermission
// where that is what they mean.
type Files interface {
	Stat(path string) (fs.FileInfo, error)
	ReadDir(path string) ([]fs.DirEntry, error)
	Open(path string) (fs.File, error)
	// EvalSymlinks returns the path without links; a path that does not exist is an error.
	EvalSymlinks(path string) (string, error)
}

// Registry reads the Windows registry. A machine without one answers fs.ErrNotExist to everything.
type Registry interface {
	// String reads a string value, or a number in decimal, of a key such as
	// `HKLM\SOFTWARE\Microsoft\Windows Kits\Installed Roots`; view is 64 or 32.
	String(key, value string, view int) (string, error)
	// Keys lists the names of the keys below key.
	Keys(key string, view int) ([]string, error)
	// Values lists the names of the values of key.
	Values(key string, view int) ([]string, error)
}

// Host is what is known of a machine before anything is run on it.
type Host struct {
	OS, Arch string // as runtime.GOOS and runtime.GOARCH say them
	Kernel   string // release of the kernel, as uname -r says it; empty when unknown
	Env      Env
	Files    Files
	Registry Registry
	Home     string // the user's home directory; empty when there is none
	Cwd      string // current directory
	CPUs     int    // logical processors that this process may use
}

// IsWSL reports whether the host is the Linux half of Windows.
// Source: WSL kernels carry "microsoft" in their release, and /usr/lib/wsl exists (microsoft/WSL issues 423, 4555).
func (h Host) IsWSL() bool {
	// A kernel of one's own keeps one of the two (systemd's detect_container looks for the same).
	kernel := strings.ToLower(h.Kernel)
	return h.OS == Linux && (strings.Contains(kernel, "microsoft") || strings.Contains(kernel, "wsl"))
}

// IsFile reports whether path is a file that can be looked at, through links.
func (h Host) IsFile(path string) bool {
	fi, err := h.there(path)
	return err == nil && !fi.IsDir()
}

// there is Stat where the content does not matter; a recorder of what is read keeps such a look apart from a file's content.
func (h Host) there(path string) (fs.FileInfo, error) {
	if r, is := h.Files.(interface {
		There(path string) (fs.FileInfo, error)
	}); is {
		return r.There(path)
	}
	return h.Files.Stat(path)
}

// IsDir reports whether path is a directory, through links.
func (h Host) IsDir(path string) bool {
	fi, err := h.there(path)
	return err == nil && fi.IsDir()
}

// Names lists what is in a directory, sorted; one that cannot be read has nothing.
func (h Host) Names(dir string) []string {
	entries, err := h.Files.ReadDir(dir)
	if err != nil {
		return nil
	}
	out := make([]string, 0, len(entries))
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

// Dirs lists the directories that an absolute pattern means; a * is any part of a name.
func (h Host) Dirs(pattern string) (out []string) {
	if !strings.Contains(pattern, "*") {
		if h.IsDir(pattern) {
			out = append(out, pattern)
		}
		return out
	}
	name := h.Base(pattern)
	for _, dir := range h.Dirs(h.Dir(pattern)) {
		names := []string{name}
		if strings.Contains(name, "*") {
			names = h.Names(dir)
		}
		for _, n := range names {
			if fits, _ := path.Match(name, n); fits && h.IsDir(h.Join(dir, n)) {
				out = append(out, h.Join(dir, n))
			}
		}
	}
	return out
}

// Repository is the nearest directory with .git, from dir upwards; empty where there is none.
func (h Host) Repository(dir string) string {
	for d := range h.Upwards(dir) {
		if _, err := h.Files.Stat(h.Join(d, ".git")); err == nil {
			return d
		}
	}
	return ""
}

// ManifestFile is the name of a package's manifest.
const ManifestFile = "Cargo.toml"

// Checkout is the highest directory with .git or Cargo.toml from dir upwards, below the user's home if dir is: a submodule, a member, and a
// .git that an archive brings, were written by those who wrote what is around them. Without one it is dir.
func (h Host) Checkout(dir string) string {
	out, home := dir, h.Real(h.Home)
	for d := range h.Upwards(dir) {
		if h.Home != "" && h.Below(home, d) {
			break
		}
		if h.Repository(d) == d || h.IsFile(h.Join(d, ManifestFile)) {
			out = d
		}
	}
	return out
}

// Multiarch is Debian's name for the host's processor.
func (h Host) Multiarch() string {
	if h.Arch == "arm64" {
		return "aarch64-linux-gnu"
	}
	return "x86_64-linux-gnu"
}

// ErrUnbounded is what an *UnboundedError is.
var ErrUnbounded = errors.New("not read")

// UnboundedError says why a file is not read: it could have no end, or is larger than such a file ever is.
type UnboundedError struct{ Path, Why string }

func (e *UnboundedError) Error() string        { return e.Path + ": " + e.Why }
func (e *UnboundedError) Is(target error) bool { return target == ErrUnbounded }

// Special returns an *UnboundedError for a named pipe, a device or a socket.
func Special(path string, fi fs.FileInfo) error {
	if fi.Mode()&(fs.ModeNamedPipe|fs.ModeDevice|fs.ModeSocket|fs.ModeIrregular) == 0 {
		return nil
	}
	return &UnboundedError{path, "a device, a pipe or a socket, not a regular file"}
}

func tooLarge(path string, kind Kind) error {
	return &UnboundedError{path, fmt.Sprintf("larger than %d bytes", kind.Most)}
}

// ofKernel is why a file is not read that has no size and yet content, or an error in place of it: the kernel makes it up, as
// /proc/self/pagemap, whose end no reader has seen.
const ofKernel = "a file of the kernel, not a regular file: it may have no end"

// Check returns the *UnboundedError with which ReadFile would end, or one for a directory that cargo would read. It reads at most one byte.
func (h Host) Check(path string, kind Kind) error {
	f, _, err := h.open(path, kind)
	if err == nil {
		if fi, failed := f.Stat(); failed == nil && fi.IsDir() && kind.Cargos {
			err = &UnboundedError{path, "a directory, not a regular file"}
		}
		_ = f.Close() // nothing was written
	}
	if !errors.Is(err, ErrUnbounded) { // the caller finds out
		return nil
	}
	return err
}

// open opens a file of a kind, and returns its first byte where it has no size.
func (h Host) open(path string, kind Kind) (f fs.File, first []byte, err error) {
	if f, err = h.Files.Open(path); err != nil {
		return nil, nil, err
	}
	fi, err := f.Stat()
	switch {
	case err != nil, fi.IsDir():
	case fi.Size() > kind.Most:
		err = tooLarge(path, kind)
	case fi.Size() == 0 && !kind.System:
		first = make([]byte, 1)
		n, failed := f.Read(first)
		if first = first[:n]; n == 0 && (failed == nil || errors.Is(failed, io.EOF)) {
			break
		}
		if fi, err = f.Stat(); err == nil && fi.Size() == 0 { // else somebody has written it meanwhile
			err = &UnboundedError{path, ofKernel}
		}
	}
	if err != nil {
		_ = f.Close() // nothing was written
		return nil, nil, err
	}
	return f, first, nil
}

// Open opens what ReadFile would read, to be read piece by piece: of a file that grows as much as ReadFile takes.
func (h Host) Open(path string, kind Kind) (io.ReadCloser, error) {
	f, first, err := h.open(path, kind)
	if err != nil {
		return nil, err
	}
	return struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(first), io.LimitReader(f, kind.Most)), f}, nil
}

// ReadFile reads a whole regular file. What is none, or is larger than a file of this kind, is an *UnboundedError.
func (h Host) ReadFile(path string, kind Kind) ([]byte, error) {
	f, first, err := h.open(path, kind)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var b bytes.Buffer
	if fi, err := f.Stat(); err == nil { // a hint: it may grow
		b.Grow(int(max(0, fi.Size())) + bytes.MinRead)
	}
	b.Write(first)
	_, err = b.ReadFrom(io.LimitReader(f, kind.Most+1-int64(len(first))))
	if _, ok := errors.AsType[*fs.PathError](err); ok {
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if int64(b.Len()) > kind.Most {
		return nil, tooLarge(path, kind)
	}
	return b.Bytes(), nil
}

// SitePackages lists the directories into which pip installs in a virtual environment.
func (h Host) SitePackages(venv string) (out []string) {
	if h.OS == Windows {
		return []string{h.Join(venv, "Lib", "site-packages")}
	}
	for _, lib := range []string{"lib", "lib64"} {
		for _, name := range h.Names(h.Join(venv, lib)) {
			if strings.HasPrefix(name, "python3.") {
				out = append(out, h.Join(venv, lib, name, "site-packages"))
			}
		}
	}
	return out
}

// Real returns path without links, or path itself where they cannot be followed.
func (h Host) Real(path string) string {
	if real, err := h.Files.EvalSymlinks(path); err == nil {
		return real
	}
	return path
}

// Exe adds ".exe" to a program's name where programs are called so.
func (h Host) Exe(name string) string {
	if h.OS == Windows && !strings.EqualFold(h.Ext(name), ".exe") {
		return name + ".exe"
	}
	return name
}

// LookPathAll lists every file on PATH that a program name means, first match first, each directory once. Relative entries and the current
// directory are never searched: a program planted in a cloned repository must not be run. A name with a separator means none.
func (h Host) LookPathAll(name string) []string {
	if name == "" || strings.Contains(h.slash(name), "/") || h.OS == Windows && strings.Contains(name, ":") {
		return nil
	}
	path, _ := h.Env.Lookup("PATH")
	var found []string
	seen := map[string]bool{} // a PATH may have thousands of entries
	for _, dir := range h.SplitList(path) {
		key := h.Clean(dir)
		if h.OS == Windows {
			key = strings.ToLower(key)
		}
		if seen[key] || !h.IsAbs(dir) {
			continue
		}
		seen[key] = true
		if p := h.ProgramIn(dir, name); p != "" {
			found = append(found, p)
		}
	}
	return found
}

// ProgramIn is the file in a directory that a program name means, "" when there is none.
func (h Host) ProgramIn(dir, name string) string {
	for _, ext := range h.extensions(name) {
		p := h.Join(dir, name+ext)
		if fi, err := h.Files.Stat(p); err == nil && !fi.IsDir() && (h.OS == Windows || fi.Mode()&0o111 != 0) {
			return p
		}
	}
	return ""
}

// extensions lists what may stand behind a program's name on PATH: on Windows one of PATHEXT, unless the name ends in one already.
func (h Host) extensions(name string) []string {
	if h.OS != Windows {
		return []string{""}
	}
	var exts []string
	for _, e := range strings.Split(strings.ToLower(h.Env.Get("PATHEXT")), ";") {
		if e = strings.TrimSpace(e); strings.HasPrefix(e, ".") {
			exts = append(exts, e)
		}
	}
	if exts == nil {
		exts = []string{".com", ".exe", ".bat", ".cmd"} // the order of a default PATHEXT
	}
	if slices.Contains(exts, strings.ToLower(h.Ext(name))) {
		return []string{""}
	}
	return exts
}

// LookPath returns the first of LookPathAll, or a *NotOnPathError.
func (h Host) LookPath(name string) (string, error) {
	if all := h.LookPathAll(name); len(all) > 0 {
		return all[0], nil
	}
	return "", &NotOnPathError{Name: name}
}

// NotOnPathError says that no directory of PATH holds a program.
type NotOnPathError struct{ Name string }

func (e *NotOnPathError) Error() string { return e.Name + " is not in any directory of PATH" }

func (e *NotOnPathError) Hint() string {
	return "install " + e.Name + " or add its directory to PATH"
}

// InstallMSVC is the hint for a Windows without Microsoft's C++ compiler.
const InstallMSVC = "install the Build Tools with C++: `winget install Microsoft.VisualStudio.2022.BuildTools --override \"--passive " +
	"--add Microsoft.VisualStudio.Workload.VCTools --includeRecommended\"`"
