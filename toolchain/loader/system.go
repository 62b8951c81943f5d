package loader

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"path"
	"slices"
	"strings"

	"gpubuild/buildenv"
)

// system is what the machine's loader knows of its own, apart from any program.
type system struct {
	cache  map[string][]string // soname and the files that have it, in the cache's order; nil: there is no cache
	dirs   []string            // searched last
	caps   []string            // names of glibc-hwcaps' directories that the processor takes, the best first
	origin string              // how the cache's answers are called
}

const maxCache = 64 << 20

// readSystem reads the loader's cache, or the directories that it would be made from.
func readSystem(h buildenv.Host, main *object) system {
	arch := triple(main.machine)
	if strings.Contains(main.interp, "ld-musl-") {
		return muslSystem(h, main)
	}
	if i := main.interp; i != "" && !strings.HasPrefix(i, "/lib") && !strings.HasPrefix(i, "/usr/lib") {
		// A loader of its own prefix (Nix, Guix, Homebrew) knows the system's directories and cache as little as they know it.
		// Source: nixpkgs pkgs/development/libraries/glibc/dont-use-system-ld-so-cache.patch; glibc's SYSCONFDIR and SLIBDIR.
		prefix := path.Dir(path.Dir(i))
		s := system{origin: "ld.so.cache of " + prefix, dirs: []string{path.Dir(i)}, caps: hwcaps(h, main)}
		if data, err := h.ReadFile(prefix+"/etc/ld.so.cache", maxCache); err == nil {
			s.cache, _ = parseCache(data, s.caps) // a damaged one is none
		}
		return s
	}
	// Debian's and Ubuntu's own order first, then that of Fedora, openSUSE and Arch; a directory that is not there does no harm.
	s := system{origin: "ld.so.cache", dirs: []string{"/lib/" + arch, "/usr/lib/" + arch}, caps: hwcaps(h, main)}
	if main.class == elf.ELFCLASS64 {
		s.dirs = append(s.dirs, "/lib64", "/usr/lib64")
	}
	s.dirs = append(s.dirs, "/lib", "/usr/lib")
	data, err := h.ReadFile("/etc/ld.so.cache", maxCache)
	if err == nil {
		s.cache, err = parseCache(data, s.caps)
	}
	if err != nil {
		s.cache = nil
		s.dirs = append(confDirs(h, "/etc/ld.so.conf", 0), s.dirs...)
	}
	return s
}

// muslSystem: musl has no cache but one file of directories. Source: musl's ldso/dynlink.c, load_library.
func muslSystem(h buildenv.Host, main *object) system {
	s := system{dirs: []string{"/lib", "/usr/local/lib", "/usr/lib"}}
	name := strings.TrimSuffix(path.Base(main.interp), ".so.1")
	if data, err := h.ReadFile("/etc/"+name+".path", 1<<16); err == nil {
		if dirs := strings.FieldsFunc(string(data), func(r rune) bool { return r == ':' || r == '\n' }); len(dirs) > 0 {
			s.dirs = dirs
		}
	}
	// The loader is the C library.
	s.cache = map[string][]string{"libc.musl-" + strings.TrimPrefix(name, "ld-musl-") + ".so.1": {main.interp}}
	s.origin = "the loader itself"
	return s
}

// triple is the name of an architecture's directory in Debian's layout.
func triple(m elf.Machine) string {
	switch m {
	case elf.EM_X86_64:
		return "x86_64-linux-gnu"
	case elf.EM_AARCH64:
		return "aarch64-linux-gnu"
	case elf.EM_386:
		return "i386-linux-gnu"
	case elf.EM_PPC64:
		return "powerpc64le-linux-gnu"
	}
	return strings.ToLower(strings.TrimPrefix(m.String(), "EM_")) + "-linux-gnu"
}

var errCache = errors.New("no cache of glibc's loader that can be read")

// parseCache reads /etc/ld.so.cache. Source: glibc's sysdeps/generic/dl-cache.h: struct cache_file_new (48 bytes) and file_entry_new
// (24); string offsets count from the new header, which stands behind an old cache in files made with --format=compat. Of entries for
// better processors those that caps names stand before the others.
func parseCache(data []byte, caps []string) (map[string][]string, error) {
	at := bytes.Index(data, []byte("glibc-ld.so.cache1.1"))
	if at < 0 || len(data)-at < 48 {
		return nil, errCache
	}
	data = data[at:]
	var order binary.ByteOrder = binary.LittleEndian
	n := uint64(order.Uint32(data[20:]))
	if n > uint64(len(data)) { // too many to be true: the other byte order
		order = binary.BigEndian
		n = uint64(order.Uint32(data[20:]))
	}
	if 48+n*24 > uint64(len(data)) {
		return nil, errCache
	}
	text := func(off uint32) string {
		if uint64(off) >= uint64(len(data)) {
			return ""
		}
		rest := data[off:]
		if i := bytes.IndexByte(rest[:min(len(rest), 4096)], 0); i >= 0 {
			return string(rest[:i])
		}
		return ""
	}
	names := cacheNames(data, order, text)
	byLevel := make([]map[string][]string, len(caps)+1)
	for i := uint64(0); i < n; i++ {
		e := data[48+i*24:]
		level := len(caps)
		switch hwcap := order.Uint64(e[16:]); {
		case hwcap == 0:
		case hwcap&hwcapExtension != 0 && uint64(uint32(hwcap)) < uint64(len(names)) && slices.Contains(caps, names[uint32(hwcap)]):
			level = slices.Index(caps, names[uint32(hwcap)])
		default:
			continue // for another processor, or of the older kind that glibc 2.37 dropped
		}
		name, file := text(order.Uint32(e[4:])), text(order.Uint32(e[8:]))
		if name != "" && strings.HasPrefix(file, "/") {
			if byLevel[level] == nil {
				byLevel[level] = map[string][]string{}
			}
			byLevel[level][name] = append(byLevel[level][name], file)
		}
	}
	out := map[string][]string{}
	for _, level := range byLevel {
		for name, files := range level {
			out[name] = append(out[name], files...)
		}
	}
	return out, nil
}

// confDirs reads ld.so.conf and what it includes.
func confDirs(h buildenv.Host, file string, depth int) []string {
	data, err := h.ReadFile(file, 1<<20)
	if err != nil || depth > 8 {
		return nil
	}
	var out []string
	for _, line := range strings.Split(string(data), "\n") {
		line, _, _ = strings.Cut(line, "#")
		f := strings.Fields(strings.NewReplacer(",", " ", ":", " ").Replace(line))
		switch {
		case len(f) == 0:
		case f[0] == "include":
			for _, pattern := range f[1:] {
				if !path.IsAbs(pattern) {
					pattern = path.Join(path.Dir(file), pattern)
				}
				for _, name := range h.Names(path.Dir(pattern)) { // sorted, as glob(3) answers
					if ok, _ := path.Match(path.Base(pattern), name); ok {
						out = append(out, confDirs(h, path.Join(path.Dir(pattern), name), depth+1)...)
					}
				}
			}
		case f[0] == "hwcap":
		default:
			for _, d := range f {
				if path.IsAbs(d) {
					out = append(out, d)
				}
			}
		}
	}
	return out
}
