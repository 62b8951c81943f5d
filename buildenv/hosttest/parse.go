package hosttest

import (
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"gpubuild/buildenv"
)

// Load reads testdata/hosts/NAME.txtar: the package's own, else the one at the root of the module.
func Load(t testing.TB, name string) buildenv.Host {
	t.Helper()
	h, err := Parse(read(t, name))
	if err != nil {
		t.Fatalf("%s.txtar: %v", name, err)
	}
	return h
}

// LoadCommands is Load with a runner that answers the commands that the machine's file holds, each as often as it is asked. A command
// that it does not hold fails the test.
func LoadCommands(t testing.TB, name string) (buildenv.Host, *Script) {
	t.Helper()
	data := read(t, name)
	h, err := Parse(data)
	if err != nil {
		t.Fatalf("%s.txtar: %v", name, err)
	}
	steps, err := Commands(data)
	if err != nil {
		t.Fatalf("%s.txtar: %v", name, err)
	}
	return h, NewScript(t, steps...)
}

func read(t testing.TB, name string) []byte {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		data, err := os.ReadFile(filepath.Join(dir, "testdata", "hosts", name+".txtar"))
		if err == nil {
			return data
		}
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil || filepath.Dir(dir) == dir {
			t.Fatalf("no testdata/hosts/%s.txtar in this package or at the root of the module", name)
		}
		dir = filepath.Dir(dir)
	}
}

// Outcome is what a test compares: the value, or the error's text when there is one.
func Outcome(value string, err error) string {
	if err != nil {
		return err.Error()
	}
	return value
}

// Parse reads a machine in the format of the package's description. Newlines may be CR LF.
func Parse(data []byte) (buildenv.Host, error) {
	h := buildenv.Host{Arch: "amd64", CPUs: 4}
	a, err := archive(data)
	if err != nil {
		return h, err
	}
	if err := header(&h, string(a.Comment)); err != nil {
		return h, err
	}
	tree := newFiles(h)
	reg := &registry{keys: map[string]*key{}}
	h.Files, h.Registry, h.Env = tree, reg, buildenv.NewEnv(h.OS, nil)
	var links [][2]string
	for _, f := range a.Files {
		name, attrs := attributes(f.Name)
		var err error
		switch {
		case strings.HasPrefix(name, "$"):
			_, err = command(f)
		case name == "@env":
			h.Env = buildenv.NewEnv(h.OS, lines(f.Data))
		case name == "@links":
			for _, l := range lines(f.Data) {
				from, to, ok := strings.Cut(l, " -> ")
				if !ok {
					err = fmt.Errorf("%q: want LINK -> TARGET", l)
					break
				}
				links = append(links, [2]string{strings.TrimSpace(from), strings.TrimSpace(to)})
			}
		case name == "@dirs":
			for _, l := range lines(f.Data) {
				path, attrs := attributes(l)
				err = cmp.Or(err, tree.addDir(path, attrs))
			}
		case name == "@empty":
			for _, l := range lines(f.Data) {
				path, attrs := attributes(l)
				var data []byte
				if h.OS == buildenv.Windows && strings.EqualFold(h.Base(path), "cl.exe") { // an empty one is broken
					data = []byte("MZ")
				}
				err = cmp.Or(err, tree.addFile(path, data, attrs))
			}
		case name == "@registry":
			err = reg.parse(lines(f.Data))
		case h.IsAbs(name):
			err = tree.addFile(name, f.Data, attrs)
		default:
			err = fmt.Errorf("neither an absolute path by the rules of %s nor one of "+
				"@env, @links, @dirs, @empty, @registry, $ command", h.OS)
		}
		if err != nil {
			return h, fmt.Errorf("section %s: %w", f.Name, err)
		}
	}
	// Links come last, so that the order of sections means nothing.
	for _, l := range links {
		if err := tree.addLink(l[0], l[1]); err != nil {
			return h, fmt.Errorf("section @links: %w", err)
		}
	}
	return h, nil
}

// archive takes the sections apart. go-internal 1.14.1 panics on a section without a name.
func archive(data []byte) (*txtar.Archive, error) {
	text := strings.ReplaceAll(string(data), "\r\n", "\n")
	for i, l := range strings.Split(text, "\n") {
		if l == "-- --" {
			return nil, fmt.Errorf("line %d: a section without a name", i+1)
		}
	}
	return txtar.Parse([]byte(text)), nil
}

func header(h *buildenv.Host, text string) error {
	for i, line := range strings.Split(text, "\n") {
		if j := strings.Index(" "+line, " #"); j >= 0 {
			line = line[:max(0, j-1)]
		}
		if strings.TrimSpace(line) == "" {
			continue
		}
		key, value, ok := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		if !ok {
			return fmt.Errorf("line %d: %q: want key: value", i+1, line)
		}
		var err error
		switch strings.TrimSpace(key) {
		case "os":
			h.OS = value
		case "arch":
			h.Arch = value
		case "kernel":
			h.Kernel = value
		case "home":
			h.Home = value
		case "cwd":
			h.Cwd = value
		case "cpus":
			h.CPUs, err = strconv.Atoi(value)
		default:
			err = fmt.Errorf("unknown key %q: want os, arch, kernel, home, cwd or cpus", key)
		}
		if err != nil {
			return fmt.Errorf("line %d: %w", i+1, err)
		}
	}
	switch h.OS {
	case buildenv.Linux, buildenv.Windows, buildenv.Darwin:
		return nil
	}
	return fmt.Errorf("os: %q: want linux, windows or darwin", h.OS)
}

// lines returns the lines that say something.
func lines(data []byte) []string {
	var out []string
	for _, l := range strings.Split(string(data), "\n") {
		if l != "" && !strings.HasPrefix(l, "#") {
			out = append(out, l)
		}
	}
	return out
}

// attributes takes the words with a + from the end of a name.
func attributes(s string) (name string, attrs []string) {
	for {
		s = strings.TrimSpace(s)
		i := strings.LastIndex(s, " +")
		if i < 0 || strings.ContainsAny(s[i+1:], ` \/`) {
			return s, attrs
		}
		attrs = append([]string{s[i+2:]}, attrs...)
		s = s[:i]
	}
}

// content makes a file's bytes and permission bits of what a section says.
func content(data []byte, attrs []string) (out []byte, perm fs.FileMode, unreadable bool, err error) {
	perm = 0o644
	for _, a := range attrs {
		key, value, _ := strings.Cut(a, "=")
		switch {
		case key == "x":
			perm |= 0o111
		case key == "unreadable":
			unreadable = true
		case key == "base64":
			data, err = base64.StdEncoding.DecodeString(strings.Join(strings.Fields(string(data)), ""))
		case key == "hex":
			data, err = hex.DecodeString(strings.Join(strings.Fields(string(data)), ""))
		case key == "chomp":
			data = []byte(strings.TrimSuffix(string(data), "\n"))
		case key == "crlf":
			data = []byte(strings.ReplaceAll(string(data), "\n", "\r\n"))
		case key == "size":
			var n int
			if n, err = strconv.Atoi(value); err == nil && (n < len(data) || n > 1<<28) {
				err = fmt.Errorf("+size=%d: want at least the content's %d and at most 256 MiB", n, len(data))
			}
			if err == nil {
				data = append(data[:len(data):len(data)], make([]byte, n-len(data))...)
			}
		case key != "" && key[0] == '0':
			var n uint64
			n, err = strconv.ParseUint(key, 8, 9)
			perm = fs.FileMode(n)
		default:
			err = fmt.Errorf("unknown attribute +%s", a)
		}
		if err != nil {
			return nil, 0, false, err
		}
	}
	return data, perm, unreadable, nil
}
