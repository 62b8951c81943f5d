package loader

import (
	"cmp"
	"debug/elf"
	"fmt"
	"slices"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/lazyregexp"
	"gpubuild/gpu"
)

// versionName is how a version of the C library is named in an ELF file: those that a program needs, and all that a C library has.
var versionName = lazyregexp.New(`GLIBC_\d+(\.\d+)+`)

// NeedsGlibc is the newest version of the C library that a file names: the oldest one with which a program or library loads. A script, or
// what needs none, has an empty one.
func NeedsGlibc(file string) (newest string) {
	e, err := elf.Open(file)
	if err != nil {
		return ""
	}
	defer e.Close()
	names := e.Section(".dynstr")
	if names == nil || e.SectionByType(elf.SHT_GNU_VERSYM) == nil {
		return ""
	}
	text, _ := names.Data() // an unreadable one names none
	for _, name := range versionName.FindAllString(string(text), -1) {
		if version := strings.TrimPrefix(name, "GLIBC_"); Older(newest, version) {
			newest = version
		}
	}
	return newest
}

// Older reports whether a version of the C library comes before another.
func Older(version, than string) bool {
	return slices.Compare(gpu.Numbers(version), gpu.Numbers(than)) < 0
}

// Glibc is the oldest C library that every file takes, and the file that takes none older.
type Glibc struct {
	Version string `json:"version,omitempty"`
	By      string `json:"by,omitempty"`
}

// SystemDirs are those in which Linux systems have their libraries.
var SystemDirs = []string{"/lib64", "/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib/x86_64-linux-gnu",
	"/usr/lib/aarch64-linux-gnu", "/lib", "/usr/lib", "/usr/local/lib"}

// TooOld says why the C library of the machine called name does not do; empty: it does.
func (g Glibc) TooOld(h buildenv.Host, name string) string {
	if g.Version == "" || h.OS == buildenv.Windows {
		return ""
	}
	has := ""
	for _, dir := range SystemDirs {
		has = cmp.Or(has, NeedsGlibc(h.Join(dir, "libc.so.6")))
	}
	switch {
	case has == "":
		return fmt.Sprintf("%s needs glibc %s or newer, and %s has no glibc", g.By, g.Version, name)
	case Older(has, g.Version):
		return fmt.Sprintf("%s needs glibc %s or newer, and %s has glibc %s", g.By, g.Version, name, has)
	}
	return ""
}
