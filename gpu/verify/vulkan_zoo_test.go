package verify

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/BurntSushi/toml"

	"gpubuild/buildenv"
	"gpubuild/buildenv/hosttest"
	"gpubuild/buildenv/hosttest/need"
	"gpubuild/buildenv/local"
	"gpubuild/buildenv/proc"
	"gpubuild/gpu/probe"
)

// vulkanLab is a machine with a software rasteriser (Mesa's lavapipe), and a driver over it that claims to be a discrete GPU.
type vulkanLab struct {
	dir, program, noLoader, oldLoader, icd, lavapipe string
	host                                             buildenv.Host
	probe                                            probe.Probe
}

const lavapipe = "libvulkan_lvp.so"

func newVulkanLab(t *testing.T) *vulkanLab {
	t.Helper()
	need.Asked(t, "vulkan")
	if runtime.GOOS != "linux" {
		need.Missing(t, "linux", "the layer is built there")
	}
	gcc := need.CC(t)
	found, err := filepath.Glob("/usr/lib/*/" + lavapipe)
	if err != nil || len(found) == 0 {
		need.Missing(t, "vulkan", "no %s: apt-get install mesa-vulkan-drivers", lavapipe)
	}
	h := hosttest.Must(local.Host())(t)
	l := &vulkanLab{dir: t.TempDir(), host: h, lavapipe: found[0]}
	l.program, l.icd = filepath.Join(l.dir, "zoo-vulkan"), filepath.Join(l.dir, "icd.json")
	l.noLoader, l.oldLoader = filepath.Join(l.dir, "none"), filepath.Join(l.dir, "old")
	hosttest.OK(t, os.Mkdir(l.oldLoader, 0o755))
	sources, headers := filepath.Join("..", "..", "testdata", "zoo-vulkan"), filepath.Join("..", "probe", "csrc")
	for _, args := range [][]string{
		{filepath.Join(sources, "program.c"), "-o", l.program},
		{filepath.Join(sources, "fake_icd.c"), "-shared", "-fPIC", "-o", filepath.Join(l.dir, "libfake.so")},
		{filepath.Join(sources, "old_loader.c"), "-shared", "-fPIC", "-o", filepath.Join(l.oldLoader, "libvulkan.so.1")},
	} {
		args = append([]string{"-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-Wno-unused-function", "-pthread", "-I", headers}, append(args, "-ldl")...)
		if out, err := exec.Command(gcc, args...).CombinedOutput(); err != nil {
			t.Fatalf("gcc %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	for name, text := range map[string]string{
		l.icd: `{"file_format_version": "1.0.0", "ICD": {"library_path": "` + l.dir + `/libfake.so", "api_version": "1.1.0"}}`,
		filepath.Join(l.noLoader, "libvulkan.so.1"): "no library",
	} {
		hosttest.OK(t, os.MkdirAll(filepath.Dir(name), 0o755))
		hosttest.OK(t, os.WriteFile(name, []byte(text), 0o644))
	}
	l.probe, err = probe.Build(context.Background(), h, proc.Runner{}, filepath.Join(l.dir, "cache"), probe.Compiler{Path: gcc}, probe.Vulkan)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// options are those of a run on the driver that claims to be a GPU, or on the rasteriser itself.
func (l *vulkanLab) options(t *testing.T, a vulkanAnimal, faked bool) Options {
	env := l.host.Env
	for _, name := range []string{"LD_PRELOAD", "LD_AUDIT", "VK_DRIVER_FILES", "VK_ICD_FILENAMES", "VK_INSTANCE_LAYERS", "VK_LAYER_PATH"} {
		env = env.Unset(name)
	}
	o := Options{Binary: l.program, Args: a.Args, Probe: l.probe, RunDir: t.TempDir(), Timeout: time.Minute, Stdout: &bytes.Buffer{}, Stderr: &bytes.Buffer{},
		Nodes: []string{}, Real: RealDriver(l.host)}
	if faked {
		node := filepath.Join(t.TempDir(), "node")
		hosttest.OK(t, makeNode(node))
		env = env.Set("VK_DRIVER_FILES", l.icd).Set("VK_ICD_FILENAMES", l.icd).Set("REAL_ICD", l.lavapipe).Set("FAKE_NODE", node).
			Set("REAL_LOADER", filepath.Join(filepath.Dir(l.lavapipe), "libvulkan.so.1"))
		o.Nodes = []string{node}
		o.Real = func(Loaded) (bool, string) { return true, "" } // only a test takes this driver for a GPU's
	}
	for name, value := range a.Env {
		env = env.Set(name, l.fill(value))
	}
	if a.Setuid {
		if os.Geteuid() != 0 {
			need.Missing(t, "mount", "only root may make a program another user's")
		}
		const nobody = 65534
		o.Binary = filepath.Join(t.TempDir(), "setuid")
		hosttest.OK(t, errors.Join(os.Chmod(filepath.Dir(filepath.Dir(o.Binary)), 0o755), copyFile(l.program, o.Binary),
			os.Chown(o.Binary, nobody, nobody), os.Chmod(o.Binary, 0o755|os.ModeSetuid)))
	}
	o.Env = env
	a.asks(&o)
	if a.Timeout != "" {
		var err error
		if o.Timeout, err = time.ParseDuration(a.Timeout); err != nil {
			t.Fatal(err)
		}
	}
	return o
}

func (l *vulkanLab) fill(s string) string {
	return strings.NewReplacer("{no-loader}", l.noLoader, "{old-loader}", l.oldLoader).Replace(s)
}

type vulkanAnimal struct {
	animal
	Software *Kind
}

func TestVulkanZoo(t *testing.T) {
	l := newVulkanLab(t)
	var zoo struct{ Animal []vulkanAnimal }
	if meta, err := toml.DecodeFile(filepath.Join("..", "..", "testdata", "zoo-vulkan", "zoo.toml"), &zoo); err != nil || len(meta.Undecoded()) > 0 {
		t.Fatal(err, meta.Undecoded())
	}
	if len(zoo.Animal) < 40 {
		t.Errorf("only %d animals", len(zoo.Animal))
	}
	for _, a := range zoo.Animal {
		t.Run(a.Story, func(t *testing.T) {
			t.Parallel()
			o := l.options(t, a, true)
			e := hosttest.Must(Run(context.Background(), l.host, proc.Runner{Grace: time.Second}, o))(t)
			v := Judge(e, o.Rules)
			if n := survey(e, o.Rules).matched; n < a.Launches {
				t.Errorf("%d dispatches were recorded, of %d", n, a.Launches)
			}
			if v.Kind != a.Verdict || !strings.Contains(v.Why, l.fill(a.Why)) {
				t.Errorf("got %s: %s\nwant %s: …%s…\n%s\n%+v\n%s", v.Kind, v.Why, a.Verdict, a.Why, strings.Join(v.Lines, "\n"), e, o.Stderr)
			}
			hosttest.Equal(t, a.belies(v), "")
			e.Control.Real, e.Control.RealNote = RealDriver(l.host)(e.Control.Loaded)
			for i := range e.Processes {
				e.Processes[i].Real, e.Processes[i].RealNote = RealDriver(l.host)(e.Processes[i].Loaded)
			}
			if again := Judge(e, o.Rules); again.Kind != Unproved && again.Kind != NoDevice {
				t.Errorf("the shipped predicate says %s of a stand-in driver: %s", again.Kind, again.Why)
			}
		})
		t.Run(a.Story+", on llvmpipe", func(t *testing.T) {
			t.Parallel()
			want := NotUsed
			if a.Software != nil {
				want = *a.Software
			}
			o := l.options(t, a, false)
			e := hosttest.Must(Run(context.Background(), l.host, proc.Runner{Grace: time.Second}, o))(t)
			if v := Judge(e, o.Rules); v.Kind != want {
				t.Errorf("got %s: %s, want %s\n%+v\n%s", v.Kind, v.Why, want, e, o.Stderr)
			}
		})
	}
}

// A real program on wgpu, testdata/wgpu: what it dispatches on the driver that claims to be a GPU, and on the rasteriser.
func TestVulkanWGPU(t *testing.T) {
	need.Asked(t, "crates", "long", "cargo")
	l := newVulkanLab(t)
	manifest, target := filepath.Join("..", "..", "testdata", "wgpu", "Cargo.toml"), t.TempDir()
	if exec.Command("cargo", "fetch", "-q", "--locked", "--offline", "--manifest-path", manifest).Run() != nil {
		need.Missing(t, "crates", "cargo fetch --locked --manifest-path testdata/wgpu/Cargo.toml")
	}
	build := exec.Command("cargo", "build", "-q", "--locked", "--offline", "--manifest-path", manifest, "--target-dir", target)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	l.program = filepath.Join(target, "debug", "zoo-wgpu")
	for _, tt := range []struct {
		mode  string
		faked bool
		want  Kind
		why   string
	}{
		{"matmul", true, Proved, ""},
		{"indirect", true, Unproved, "indirect or conditional"},
		{"draw", true, NotUsed, "only wgpu's own"},
		{"cpu", true, NotUsed, "no work group of a compute pipeline was launched"},
		{"matmul", false, NotUsed, "the CPU (llvmpipe): 1 launch of matmul"},
		{"draw", false, NotUsed, "llvmpipe"},
		{"cpu", false, NotUsed, "no work group of a compute pipeline was launched"},
	} {
		o := l.options(t, vulkanAnimal{animal: animal{Args: []string{tt.mode}}}, tt.faked)
		e := hosttest.Must(Run(context.Background(), l.host, proc.Runner{Grace: time.Second}, o))(t)
		v := Judge(e, o.Rules)
		if v.Kind != tt.want || !strings.Contains(v.Why, tt.why) {
			t.Errorf("%s, as a GPU %v: got %s: %s\n%+v\n%s", tt.mode, tt.faked, v.Kind, v.Why, e, o.Stderr)
		}
		if v.Kind == Proved && (v.Launches != 1 || v.Kernels[0].Name != "matmul") {
			t.Errorf("%s: %d launches of %+v", tt.mode, v.Launches, v.Kernels)
		}
	}
}

// What csrc/vulkan.h says of Vulkan is what Khronos' headers say.
func TestVulkanHeader(t *testing.T) {
	need.Asked(t, "vulkan")
	gcc := need.CC(t)
	source := filepath.Join("testdata", "vulkan_header.c")
	if out, err := exec.Command(gcc, "-fsyntax-only", "-I", filepath.Join("..", "probe", "csrc"), source).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	layer := hosttest.Must(os.ReadFile(filepath.Join("..", "probe", "csrc", "layer.c")))(t)
	headers, err := filepath.Glob("/usr/include/vulkan/vulkan_*.h")
	if err != nil || len(headers) == 0 {
		need.Missing(t, "vulkan", "no headers of Vulkan")
	}
	runs := regexp.MustCompile(
		`VKAPI_CALL vk(Cmd(Dispatch|TraceRays|Execute|Cu|BeginConditional|SubpassShading|BindShaders)\w*|QueueSubmit\w*)`)
	for _, header := range headers {
		text := hosttest.Must(os.ReadFile(header))(t)
		for _, m := range runs.FindAllStringSubmatch(string(text), -1) {
			if !regexp.MustCompile(`(OURS|X)\(` + m[1] + `\b`).Match(layer) {
				t.Errorf("%s has %s, which may run shaders, and the layer does not record it", header, m[0])
			}
		}
	}
}
