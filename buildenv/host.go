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
	return h.OS == Linux && strings.Contains(strings.ToLower(h.Kernel), "microsoft")
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

// ErrUnbounded is why a file is not read: it could have no end, or be larger than such a file ever is.
var ErrUnbounded = errors.New("it is not read")

// Unbounded returns an error that is ErrUnbounded for a named pipe, a device or a socket, whose reader may wait for ever, and for a file of
// more than limit bytes; 0: of any size. /dev/null is an empty file. So it does for what is OfKernel.
func (h Host) Unbounded(path string, limit int64) error {
	fi, err := h.Files.Stat(path)
	why := "a device, a pipe or a socket is no file"
	switch {
	case err != nil: // what is not there is for the caller to report
		return nil
	case fi.Mode()&(fs.ModeNamedPipe|fs.ModeDevice|fs.ModeSocket|fs.ModeIrregular) == 0:
		switch {
		case fi.IsDir():
			return nil
		case limit > 0 && fi.Size() > limit:
			why = fmt.Sprintf("larger than %d bytes", limit)
		case fi.Size() == 0 && OfKernel(h.Real(path)):
			why = "a file of the kernel's may have no end"
		default:
			return nil
		}
	case h.Real(path) == "/dev/null":
		return nil
	}
	return &fs.PathError{Op: "open", Path: path, Err: fmt.Errorf("%w: %s", ErrUnbounded, why)}
}

// OfKernel reports whether the reader of a regular file that has no size and is there after links were followed, as /proc/kmsg, may wait
// for ever. Those of drivers, settings and processes answer at once.
func OfKernel(real string) bool {
	in, below := strings.CutPrefix(real, "/proc/")
	first, _, _ := strings.Cut(in, "/")
	own := below && (first == "driver" || first == "sys" || strings.Trim(first, "0123456789") == "")
	return below && !own || strings.HasPrefix(real, "/sys/")
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

// ReadFile reads a whole regular file of at most limit bytes; anything else is an error that is ErrUnbounded.
func (h Host) ReadFile(path string, limit int64) ([]byte, error) {
	f, err := h.Files.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	tooLarge := fmt.Errorf("%s: %w: larger than %d bytes", path, ErrUnbounded, limit)
	var b bytes.Buffer
	if fi, err := f.Stat(); err == nil { // a hint: it may grow, and a file of the kernel's has no size
		if fi.Size() > limit {
			return nil, tooLarge
		}
		b.Grow(int(max(0, fi.Size())) + bytes.MinRead)
	}
	_, err = b.ReadFrom(io.LimitReader(f, limit+1))
	data := b.Bytes()
	if _, ok := errors.AsType[*fs.PathError](err); ok {
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if int64(len(data)) > limit {
		return nil, tooLarge
	}
	return data, nil
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
