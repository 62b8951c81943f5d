package fresh

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/hosttest/need"
	"gpubuild/buildenv/local"
	"gpubuild/buildenv/stale"
	"gpubuild/cmd/internal/session"
	"gpubuild/features"
	"gpubuild/features/catalog"
)

// drives is a machine's file system, made of names with slashes.
type drives struct{ m fstest.MapFS }

func (d drives) at(p string) string                      { return strings.TrimPrefix(strings.ReplaceAll(p, `\`, "/"), "/") }
func (d drives) Stat(p string) (fs.FileInfo, error)      { return d.m.Stat(d.at(p)) }
func (d drives) ReadDir(p string) ([]fs.DirEntry, error) { return d.m.ReadDir(d.at(p)) }
func (d drives) Open(p string) (fs.File, error)          { return d.m.Open(d.at(p)) }
func (d drives) EvalSymlinks(p string) (string, error)   { return p, nil }

// TestPrecious: the directories in which nothing is ever removed, on both kinds of system.
func TestPrecious(t *testing.T) {
	windows := buildenv.Host{OS: buildenv.Windows, Home: `C:\Users\u`, Files: drives{fstest.MapFS{"D:/p/Cargo.toml": {}}}}
	unix := buildenv.Host{OS: buildenv.Linux, Home: "/home/u", Files: drives{fstest.MapFS{"p/Cargo.toml": {}}}}
	for _, tt := range []struct {
		host      buildenv.Host
		dir, want string
	}{
		{unix, "/", "root"}, {unix, "/home", "lies in it"}, {unix, "/home/u", "is your home"}, {unix, "/p", "package's own"},
		{unix, "/p/target", ""}, {unix, "/home/u/target", ""}, {unix, "/home/user2", ""}, {unix, "target", "absolute"},
		{windows, `C:\`, "root"}, {windows, `D:\`, "root"}, {windows, `\\server\share`, "root"}, {windows, `c:\users`, "lies in it"},
		{windows, `C:\USERS\U`, "is your home"}, {windows, `D:\p`, "package's own"}, {windows, `D:\p\target`, ""},
	} {
		b := &Build{Machine: &session.Machine{Host: tt.host}}
		if got := b.precious(tt.dir); (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
			t.Errorf("%s on %s: %q, want %q", tt.dir, tt.host.OS, got, tt.want)
		}
	}
}

// TestPoisoned: only a reason that the cache's own check does not see makes it one that would bring old things back.
func TestPoisoned(t *testing.T) {
	cache := Cache{Package: "candle-flash-attn", Files: 3, blindTo: []string{"nvcc"}}
	reason := func(pkg, input string) []stale.Reason { return []stale.Reason{{Package: pkg, Input: input}} }
	for _, tt := range []struct {
		story   string
		cache   Cache
		reasons []stale.Reason
		want    int
	}{
		{"another nvcc", cache, reason("candle-flash-attn", "nvcc"), 1},
		{"another arch, which is part of its key", cache, reason("candle-flash-attn", "arch"), 0},
		{"another nvcc for another package", cache, reason("candle-kernels", "nvcc"), 0},
		{"both, reported once", cache, append(reason("candle-flash-attn", "arch"), append(reason("candle-flash-attn", "nvcc"), reason("candle-flash-attn", "nvcc")...)...), 1},
		{"it holds nothing", Cache{Package: "candle-flash-attn", blindTo: []string{"nvcc"}}, reason("candle-flash-attn", "nvcc"), 0},
	} {
		if got := poisoned([]Cache{tt.cache}, tt.reasons); len(got) != tt.want {
			t.Errorf("%s: %d", tt.story, len(got))
		}
	}
}

// TestEmptyStaysInside: a link in a cache is foreign, and nothing that it leads to is touched.
func TestEmptyStaysInside(t *testing.T) {
	top := t.TempDir()
	dir, mine := filepath.Join(top, "cache"), filepath.Join(top, "mine")
	for _, d := range []string{dir, mine} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range []string{filepath.Join(dir, "libflashattention.a"), filepath.Join(mine, "precious")} {
		if err := os.WriteFile(f, []byte("x"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(mine, "precious"), filepath.Join(dir, "flash_api-1f.o")); err != nil {
		need.Missing(t, "links", "%v", err)
	}
	host, err := local.Host()
	if err != nil {
		t.Fatal(err)
	}
	b := &Build{Machine: &session.Machine{Host: host}}
	catalog, err := catalog.Default()
	if err != nil {
		t.Fatal(err)
	}
	o, err := b.lookOutside("candle-flash-attn", &catalog.Crate("candle-flash-attn").External[0], dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := mayEmpty([]Cache{o}); exit.Of(err) != exit.Usage || !strings.Contains(err.Error(), "flash_api-1f.o") {
		t.Errorf("a link was taken for the crate's own: %v", err)
	}
	if slices.Contains(o.paths, "flash_api-1f.o") {
		t.Error("it would have been removed")
	}
	for _, f := range []string{filepath.Join(mine, "precious"), filepath.Join(dir, "libflashattention.a")} {
		if _, err := os.Stat(f); err != nil {
			t.Error(err)
		}
	}
}

// Nothing is removed where a slip would cost more than build products, nor through a link that leads out of the target directory.
func TestRemovesOnlyBuildProducts(t *testing.T) {
	t.Parallel()
	host, err := local.Host()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	in := func(names ...string) string { return filepath.Join(append([]string{dir}, names...)...) }
	host.Home = in("home")
	for _, d := range []string{in("home", "mine"), in("package"), in("target", "debug"), in("mine", "debug"), in("linked")} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	err = errors.Join(os.WriteFile(in("package", "Cargo.toml"), nil, 0o600), os.Symlink(in("package"), in("away")),
		os.Symlink(in("target"), in("link")), os.Symlink(in("mine", "debug"), in("linked", "debug")))
	if err != nil {
		t.Fatal(err)
	}
	for target, want := range map[string]string{
		"/": "the root of the file system", in("home"): "your home directory", dir: "your home directory lies in it",
		in("package"): "it holds a Cargo.toml", in("away"): "it holds a Cargo.toml", in("target"): "", in("link"): "",
		in("linked"): "which is outside of cargo's target directory",
	} {
		b := &Build{Machine: &session.Machine{Host: host}, Reach: &features.Reach{}}
		b.Graph.Places.BuildDirectory = target
		err := b.guard()
		if err == nil {
			err = b.inside([]string{filepath.Join(target, "debug", "deps")})
		}
		if want == "" && err != nil || want != "" && (err == nil || exit.Of(err) != exit.Usage || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v", target, err)
		}
	}
}
