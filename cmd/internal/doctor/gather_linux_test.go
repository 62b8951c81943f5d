package doctor

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gpubuild/buildenv"
	"gpubuild/buildenv/hosttest"
	"gpubuild/buildenv/hosttest/need"
	"gpubuild/buildenv/local"
	"gpubuild/buildenv/proc"
	"gpubuild/cmd/internal/console"
	"gpubuild/cmd/internal/session"
	"gpubuild/cmd/internal/tools"
	"gpubuild/features"
	"gpubuild/toolchain/cargo"
	"gpubuild/toolchain/cuda"
	"gpubuild/toolchain/loader"
)

// thisMachine is the machine that the test runs on, with a cache of its own.
func thisMachine(tb testing.TB, cacheDir string) *session.Machine {
	tb.Helper()
	h := hosttest.Must(local.Host())(tb)
	return &session.Machine{Host: h, Runner: proc.Runner{}, Shell: &console.Shell{Out: io.Discard, Err: io.Discard}, CacheDir: cacheDir}
}

// counting counts the processes that are started.
type counting struct {
	session.Runner
	started []string
}

func (c *counting) Run(ctx context.Context, cmd buildenv.Cmd) (buildenv.Result, error) {
	c.started = append(c.started, cmd.Path)
	return c.Runner.Run(ctx, cmd)
}

// TestRunLibraries asks this machine's own loader for a real toolkit's run-time library: in no directory of the loader's, in one.
func TestRunLibraries(t *testing.T) {
	root := need.Toolkit(t)
	self := hosttest.Must(proc.Self())(t)
	for _, tt := range []struct {
		story, path string
		kind        loader.Kind
	}{
		{"only in the toolkit", "", loader.Added},
		{"on the loader's path", filepath.Join(root, "lib"), loader.OK},
	} {
		m := thisMachine(t, t.TempDir())
		m.Self = self
		m.Host.Env = m.Host.Env.Set("LD_LIBRARY_PATH", tt.path)
		var chosen *cuda.Toolkit
		found := cuda.Find(m.Host, []cuda.Candidate{{Root: root, Origin: "test"}})
		for i := range found {
			if found[i].Is(m.Host, root) {
				chosen = &found[i]
			}
		}
		if chosen == nil {
			t.Fatal("the toolkit is not found")
		}
		reach := &features.Reach{Needs: features.Needs{Run: []features.NeedReason{{Need: "the NVIDIA driver"},
			{Need: "libcudart", Why: "to start"}, {Need: "libcufft"}, {Need: "libcublas", Why: "built in, but for the driver"}}}}
		r := runTime(t.Context(), m, reach.Needs.Run, []cuda.Toolkit{*chosen})
		libs := r.Libraries
		if len(libs) != 2 || len(r.Dirs) == 0 {
			t.Fatalf("%s: %+v", tt.story, r)
		}
		if l := libs[0]; l.Found.Name != "libcudart.so.13" || l.Found.Kind != tt.kind {
			t.Errorf("%s: %+v", tt.story, l)
		}
		if l := libs[1]; l.Found.Kind != loader.Missing || l.Found.Problem == "" {
			t.Errorf("%s, what the toolkit does not have: %+v", tt.story, l)
		}
	}
}

// TestStubsOnPath finds the driver's stub by its directory's name, behind a link of another name, and behind a link of its own.
func TestStubsOnPath(t *testing.T) {
	self := hosttest.Must(proc.Self())(t)
	top := t.TempDir()
	stubs, plain, linked := filepath.Join(top, "lib64", "stubs"), filepath.Join(top, "plain"), filepath.Join(top, "nice")
	need.Program(t, "cc", "gcc")
	for _, dir := range []string{stubs, plain} {
		hosttest.OK(t, os.MkdirAll(dir, 0o755))
	}
	gcc := exec.Command("gcc", "-shared", "-x", "c", "/dev/null", "-o", filepath.Join(stubs, "libcuda.so"))
	if out, err := gcc.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for from, to := range map[string]string{filepath.Join(plain, "libcuda.so.1"): filepath.Join(stubs, "libcuda.so"), linked: stubs} {
		hosttest.OK(t, os.Symlink(to, from))
	}
	for path, want := range map[string]string{
		filepath.Join(top, "lib64"): "",
		stubs + "/":                 filepath.Join(stubs, "libcuda.so"),
		linked:                      filepath.Join(linked, "libcuda.so"),
		plain:                       filepath.Join(plain, "libcuda.so.1"),
	} {
		m := thisMachine(t, t.TempDir())
		m.Self = self
		m.Host.Env = m.Host.Env.Set("LD_LIBRARY_PATH", path)
		hosttest.Equal(t, strings.Join(runTime(t.Context(), m, nil, nil).Stubs, ", "), want, path)
	}
}

// TestDoctorAsksTheDriverOnce holds that one that hangs is waited for once, whether the build's own choice asks it or not.
func TestDoctorAsksTheDriverOnce(t *testing.T) {
	for _, arch := range []string{"", "89"} {
		h, run := hosttest.LoadCommands(t, "wsl2-driver-only")
		count := &counting{Runner: run}
		m := &session.Machine{Host: h, Runner: count, Shell: &console.Shell{Out: io.Discard, Err: io.Discard}, CacheDir: "/none"}
		f := hosttest.Must(Gather(context.Background(), m, cargo.Line{}, Options{Tools: tools.Options{Arch: arch}}))(t)
		asked := 0
		for _, path := range count.started {
			if strings.HasSuffix(path, "nvidia-smi") {
				asked++
			}
		}
		if asked != 1 || len(f.Toolchain.Devices) != 1 || f.Notes == nil {
			t.Errorf("arch %q: nvidia-smi was asked %d times, %d GPUs, notes %q", arch, asked, len(f.Toolchain.Devices), f.Notes)
		}
	}
}
