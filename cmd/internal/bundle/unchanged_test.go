package bundle

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpubuild/buildenv"
	"gpubuild/buildenv/cache"
	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/hosttest"
	"gpubuild/buildenv/hosttest/need"
	"gpubuild/buildenv/local"
	"gpubuild/toolchain/loader"
)

// fake writes a bundle of files that hold their own names, with a link to the library.
func fake(t *testing.T, change func(*manifest)) (dir string) {
	t.Helper()
	dir = t.TempDir()
	m := manifest{Schema: Schema, Bundle: Bundle{Programs: []string{"bin/app"}, Glibc: "2.17", Prove: &Prove{Probe: "prove/p.so", CUPTI: "prove/0/cupti", Others: []string{"prove/1/cupti"}}}}
	for _, name := range []string{"bin/app", "app", "lib/libx.so.1", "prove/p.so", "prove/0/cupti", "prove/1/cupti"} {
		file := filepath.Join(dir, filepath.FromSlash(name))
		hosttest.OK(t, errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(name), 0o755)))
		m.Files = append(m.Files, File{Name: name, Size: int64(len(name)), SHA256: sum(t, file)})
	}
	m.Files[2].Link = "lib/libx.so"
	if err := os.Symlink("libx.so.1", filepath.Join(dir, "lib", "libx.so")); err != nil {
		need.Missing(t, "links", "%v", err)
	}
	if change != nil {
		change(&m)
	}
	text, err := json.Marshal(m)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, manifestName), text, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestUnchanged: a bundle is opened as it was made, and not with a file more, less or changed, nor where it starts what is none of its files.
func TestUnchanged(t *testing.T) {
	t.Parallel()
	h := hosttest.Must(local.Host())(t)
	write := func(name, text string) func(string) error {
		return func(dir string) error { return os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755) }
	}
	none := func(string) error { return nil }
	for story, tt := range map[string]struct {
		manifest func(*manifest)
		change   func(dir string) error
		want     string // of the error; empty: it opens
	}{
		"as it was made":        {nil, none, ""},
		"nothing to prove with": {func(m *manifest) { m.Prove = nil }, none, ""},
		"a file more":           {nil, write("lib/liby.so", "y"), "lib/liby.so"},
		"an empty file more":    {nil, write("lib/liby.so", ""), "lib/liby.so"},
		"a link more":           {nil, func(dir string) error { return os.Symlink("libx.so.1", filepath.Join(dir, "lib", "liby.so")) }, "lib/liby.so"},
		"a file of other bytes": {nil, write("lib/libx.so.1", "LIB/libx.so.1"), "lib/libx.so.1"},
		"a longer file":         {nil, write("lib/libx.so.1", "lib/libx.so.1 "), "lib/libx.so.1"},
		"a file less":           {nil, func(dir string) error { return os.Remove(filepath.Join(dir, "lib", "libx.so.1")) }, "lib/libx.so.1"},
		"a link less":           {nil, func(dir string) error { return os.Remove(filepath.Join(dir, "lib", "libx.so")) }, "it lacks lib/libx.so"},
		"a link to another": {nil, func(dir string) error {
			return errors.Join(os.Remove(filepath.Join(dir, "lib/libx.so")), os.Symlink("../app", filepath.Join(dir, "lib/libx.so")))
		}, "lib/libx.so"},
		"a link in place of a file": {nil, func(dir string) error {
			return errors.Join(os.Remove(filepath.Join(dir, "app")), os.Symlink("bin/app", filepath.Join(dir, "app")))
		}, "app"},
		"a program of elsewhere":         {func(m *manifest) { m.Programs = []string{"../evil"} }, none, "../evil is none of its files"},
		"a link as program":              {func(m *manifest) { m.Programs = []string{"lib/libx.so"} }, none, "lib/libx.so is none of its files"},
		"a probe of elsewhere":           {func(m *manifest) { m.Prove.Probe = "/tmp/p.so" }, none, "/tmp/p.so is none of its files"},
		"a control of elsewhere":         {func(m *manifest) { m.Prove.Control = "c" }, none, "c is none of its files"},
		"a watch of elsewhere":           {func(m *manifest) { m.Prove.Watch = "w" }, none, "w is none of its files"},
		"a CUPTI of elsewhere":           {func(m *manifest) { m.Prove.CUPTI = "x" }, none, "x is none of its files"},
		"another CUPTI of elsewhere":     {func(m *manifest) { m.Prove.Others = []string{"prove/1/cupti", "y"} }, none, "y is none of its files"},
		"a newer C library than is here": {func(m *manifest) { m.Glibc, m.Prove = "9.99", nil }, none, "9.99"},
		"one that proving needs":         {func(m *manifest) { m.Prove.Glibc = loader.Glibc{Version: "9.99", By: "prove/0/cupti"} }, none, "9.99"},
		"one that only proving lacks":    {func(m *manifest) { m.Glibc = "9.99" }, none, ""},
	} {
		dir := fake(t, tt.manifest)
		hosttest.OK(t, tt.change(dir))
		program, rt, err := Open(h, dir)
		if (err == nil) != (tt.want == "") || err != nil && (!strings.Contains(err.Error(), tt.want) || exit.Hint(err) == "") {
			t.Errorf("%s: %v", story, err)
		}
		if err == nil && (program != filepath.Join(h.Real(dir), "bin", "app") || !strings.HasPrefix(rt.Env.Get("LD_LIBRARY_PATH"), filepath.Join(h.Real(dir), "lib")) ||
			(len(rt.Others) == 1) != (rt.Probe.Library != "")) {
			t.Errorf("%s: %s, %+v", story, program, rt)
		}
	}
}

// TestOpen: which paths name a bundle's program: its directory if it has one, a start script, and nothing else.
func TestOpen(t *testing.T) {
	t.Parallel()
	h := hosttest.Must(local.Host())(t)
	h.Env = h.Env.Unset("LD_LIBRARY_PATH")
	two := func(m *manifest) { m.Programs = []string{"bin/app", "prove/p.so"} }
	for story, tt := range map[string]struct {
		manifest func(*manifest)
		path     string
		program  string // empty: none is found
		usage    bool
	}{
		"the directory":              {nil, "", "bin/app", false},
		"the start script":           {nil, "app", "bin/app", false},
		"another file":               {nil, "gpubuild-bundle.json", "", false},
		"a directory of it":          {nil, "lib", "", false},
		"of two, the directory":      {two, "", "", true},
		"of two, the first":          {two, "app", "bin/app", false},
		"the next schema":            {func(m *manifest) { m.Schema += "0" }, "", "", false},
		"no program":                 {func(m *manifest) { m.Programs = nil }, "", "", false},
		"no directory that is there": {nil, "none/x", "", false},
	} {
		dir := fake(t, tt.manifest)
		program, rt, err := Open(h, filepath.Join(dir, filepath.FromSlash(tt.path)))
		want := ""
		if tt.program != "" {
			want = filepath.Join(h.Real(dir), filepath.FromSlash(tt.program))
		}
		if program != want || (exit.Of(err) == exit.Usage) != tt.usage || err != nil && !tt.usage {
			t.Errorf("%s: %q, %v", story, program, err)
		}
		if program != "" && h.OS != buildenv.Windows && rt.Env.Get("LD_LIBRARY_PATH") != filepath.Join(h.Real(dir), "lib") {
			t.Errorf("%s: %q", story, rt.Env.Get("LD_LIBRARY_PATH"))
		}
	}
}

func sum(t *testing.T, file string) string {
	return hosttest.Must(cache.Hash(file))(t)
}
