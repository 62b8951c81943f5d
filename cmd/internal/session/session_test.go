package session

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gpubuild/buildenv"
	"gpubuild/buildenv/hosttest"
	"gpubuild/buildenv/local"
	"gpubuild/cmd/internal/console"
	"gpubuild/toolchain/cargo"
)

// TestGPUWorkAfterCargoUnpacked: on a machine without any package, what the build scripts of a registry hold is looked at again once cargo has
// unpacked them.
func TestGPUWorkAfterCargoUnpacked(t *testing.T) {
	t.Parallel()
	host := hosttest.Must(local.Host())(t)
	top := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(top, filepath.FromSlash(name))
		hosttest.OK(t, os.MkdirAll(filepath.Dir(path), 0o755))
		hosttest.OK(t, os.WriteFile(path, []byte(text), 0o644))
	}
	host.Env, host.Cwd = host.Env.Set("CARGO_HOME", filepath.Join(top, "home")), filepath.Join(top, "w")
	pkg := func(name string) string { return "[package]\nname = \"" + name + "\"\nversion = \"1.0.0\"\n" }
	write("w/Cargo.toml", pkg("app")+"[dependencies]\nmid = \"1\"\n")
	write("w/src/main.rs", "fn main() {}")
	write("w/Cargo.lock", `version = 4
[[package]]
name = "app"
version = "1.0.0"
dependencies = [
 "mid",
]
[[package]]
name = "mid"
version = "1.0.0"
source = "registry+https://host.example/index"
dependencies = [
 "kern",
]
[[package]]
name = "kern"
version = "1.0.0"
source = "registry+https://host.example/index"
`)
	look := func() (bool, string) {
		t.Helper()
		m := &Machine{Host: host, CacheDir: filepath.Join(top, "cache"), Shell: &console.Shell{Out: t.Output(), Err: t.Output()}, Began: time.Now()}
		s := hosttest.Must(Open(m, cargo.Line{Verb: "build"}))(t)
		return s.GPUWork()
	}
	if work, why := look(); !work || !strings.Contains(why, "mid") {
		t.Errorf("nothing is unpacked yet: %t, %s", work, why)
	}
	const unpacked = "home/registry/src/host-1/"
	write(unpacked+"mid-1.0.0/Cargo.toml", pkg("mid"))
	write(unpacked+"kern-1.0.0/Cargo.toml", pkg("kern"))
	if work, why := look(); work {
		t.Errorf("no package has CUDA source: %s", why)
	}
	hosttest.OK(t, os.RemoveAll(filepath.Join(top, "home")))
	if work, _ := look(); !work {
		t.Error("nothing is unpacked any more")
	}
	write(unpacked+"mid-1.0.0/Cargo.toml", pkg("mid"))
	write(unpacked+"kern-1.0.0/Cargo.toml", pkg("kern"))
	write(unpacked+"kern-1.0.0/build.rs", "fn main() {}")
	write(unpacked+"kern-1.0.0/kernels/a.cu", "")
	if work, why := look(); !work || !strings.Contains(why, "kern") {
		t.Errorf("kern may compile kernels: %t, %s", work, why)
	}
}

// TestShownBelowARoot: the root's own separator is no letter of the path.
func TestShownBelowARoot(t *testing.T) {
	t.Parallel()
	for cwd, want := range map[string]string{"/": "usr/bin/true", "/usr": "bin/true", "/home": "/usr/bin/true"} {
		m := Machine{Host: buildenv.Host{OS: buildenv.Linux, Cwd: cwd}}
		hosttest.Equal(t, m.Shown("/usr/bin/true"), want, cwd)
	}
}
