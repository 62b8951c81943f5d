package tools

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpubuild/buildenv"
	"gpubuild/buildenv/hosttest"
	"gpubuild/buildenv/local"
	"gpubuild/cmd/internal/console"
	"gpubuild/cmd/internal/session"
	"gpubuild/features/catalog"
	"gpubuild/gpu"
	"gpubuild/toolchain"
	"gpubuild/toolchain/cargo"
	"gpubuild/toolchain/hostcc"
	"gpubuild/toolchain/install"
	"gpubuild/toolchain/install/tree"
)

// pipOnly is a world in which pip answers, or nothing does.
type pipOnly bool

func (p pipOnly) Run(_ context.Context, c buildenv.Cmd) (buildenv.Result, error) {
	if !p {
		return buildenv.Result{}, &buildenv.ExitError{Cmd: c, Result: buildenv.Result{Code: 1}}
	}
	return buildenv.Result{Stdout: []byte("pip 23.2.1 from /lib/pip (python 3.11)\n")}, nil
}

// Which way a toolkit comes: wheels by pip, else NVIDIA's archives, from where the user says.
func TestWhereAToolkitComesFrom(t *testing.T) {
	shop := t.TempDir()
	write := func(rel, text string) {
		file := filepath.Join(shop, "cuda", "redist", filepath.FromSlash(rel))
		hosttest.OK(t, errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o644)))
	}
	for _, label := range []string{"12.3.2", "12.8.1", "13.1.0"} {
		var parts []string
		for _, c := range []string{"cuda_nvcc", "libnvvm", "cuda_crt", "cuda_cudart", "cuda_cccl", "cuda_cupti"} {
			if strings.HasPrefix(label, "12") && (c == "libnvvm" || c == "cuda_crt") {
				continue
			}
			parts = append(parts, fmt.Sprintf(`%q: {"name": "x", "version": "1.2.3", "linux-x86_64": {"relative_path": `+
				`"%[2]s/%[2]s.tar.xz", "sha256": "%[3]s", "size": "1000"}}`, c, c, strings.Repeat("0", 64)))
		}
		write("redistrib_"+label+".json", `{"release_label": "`+label+`", `+strings.Join(parts, ", ")+"}")
	}
	v := func(major, minor int) gpu.Version { return gpu.Version{Major: major, Minor: minor} }
	for name, tt := range map[string]struct {
		pip      bool
		want     install.Want
		flag     string
		variable string
		release  string // "": an error
		says     string
	}{
		"wheels, by pip":                     {true, install.Want{}, "", shop, "13.5.0", ""},
		"a release of 13 that is not pinned": {true, install.Want{Exact: v(13, 1), Release: "13.1.0"}, "", shop, "13.1.0", "no wheels of CUDA 13.1.0 are"},
		"12 by name":                         {true, install.Want{Exact: v(12, 8)}, "", shop, "12.8.1", "no wheels of CUDA 12.8.1 are pinned"},
		"the locked cudarc knows only 12.3":  {true, install.Want{MaxVersion: v(12, 3)}, "", shop, "12.3.2", "no wheels of CUDA 12"},
		"a feature fixes cudarc to 12.3":     {true, install.Want{Pin: v(12, 3)}, "", shop, "12.8.1", "no wheels of CUDA 12"},
		"the feature and the driver": {true, install.Want{Pin: v(12, 2), MaxVersion: v(12, 4)}, "", shop, "12.3.2",
			"no wheels of CUDA 12"},
		"a feature that nothing serves": {true, install.Want{Pin: v(12, 9)}, "", shop, "",
			"CUDA 12.8.1 has not all of what a feature fixes"},
		"no pip":                       {false, install.Want{}, "", shop, "13.1.0", "there is no pip here"},
		"the flag before the variable": {true, install.Want{}, shop, "never", "13.1.0", ""},
		"the user's own configuration": {true, install.Want{Exact: v(12, 8)}, "", "", "12.8.1", "no wheels of CUDA 12"},
		"never":                        {true, install.Want{Exact: v(12, 8)}, "", "never", "", "no CUDA 12.8 to fetch"},
		"never, and no pip":            {false, install.Want{}, "", "never", "", "no pip to fetch the toolkit with"},
		"newer than the driver":        {true, install.Want{Exact: v(13, 1), MaxVersion: v(12, 8)}, "", shop, "", "newer than"},
		"just as new as the driver":    {true, install.Want{Exact: v(12, 8), MaxVersion: v(12, 8)}, "", shop, "12.8.1", "no wheels of CUDA 12"},
		"a version that is nowhere":    {true, install.Want{Exact: v(12, 5)}, "", shop, "", "no CUDA 12.5 to fetch"},
		"a place that is none": {true, install.Want{Exact: v(12, 8)}, "", filepath.Join(shop, "cuda"), "",
			"no directory cuda/redist is there"},
	} {
		t.Run(name, func(t *testing.T) {
			h := hosttest.Must(local.Host())(t)
			h.OS, h.Arch = buildenv.Linux, "amd64"
			bin := t.TempDir()
			hosttest.OK(t, os.WriteFile(filepath.Join(bin, "python3"), nil, 0o755))
			mine := filepath.Join(bin, "config.toml")
			hosttest.OK(t, os.WriteFile(mine, []byte(fmt.Sprintf("redist = %q\n", shop)), 0o600))
			h.Env = buildenv.NewEnv(buildenv.Linux, []string{"PATH=" + bin, "GPUBUILD_REDIST=" + tt.variable, "GPUBUILD_CONFIG=" + mine})
			var said strings.Builder
			m := &session.Machine{Host: h, Runner: pipOnly(tt.pip), Shell: &console.Shell{Err: &said}, CacheDir: t.TempDir()}
			p, err := Plan(context.Background(), m, tt.want, tt.flag)
			if tt.release == "" {
				var hint interface{ Hint() string }
				if err == nil || !strings.Contains(err.Error(), tt.says) || !errors.As(err, &hint) || hint.Hint() == "" {
					t.Errorf("got %v, want %q", err, tt.says)
				}
				return
			}
			if err != nil || p.Release != tt.release || !strings.Contains(said.String(), tt.says) {
				t.Errorf("got %s, %v, %q; want %s, %q", p.Release, err, said.String(), tt.release, tt.says)
			}
		})
	}
}

// TestNothingIsFetched: cargo's own flags that forbid the network forbid a download, and what needs no toolkit gets none.
func TestNothingIsFetched(t *testing.T) {
	t.Parallel()
	for words, says := range map[string]string{"build --offline": "--offline", "build --frozen": "--offline", "build": "need a driver only"} {
		line, _ := hosttest.Must2(cargo.Split(strings.Fields(words), nil))(t)
		var said strings.Builder
		s := &session.Session{Machine: &session.Machine{Shell: &console.Shell{Err: &said}}, Line: line}
		if root, err := fetch(context.Background(), s.Machine, s.Line, toolchain.Needs{}, toolchain.Facts{}, toolchain.Wish{}); root != "" || err != nil || !strings.Contains(said.String(), says) {
			t.Errorf("%s: %q, %v: %s", words, root, err, said.String())
		}
	}
}

// TestPreviousArch: of what is known of earlier builds the first that is known counts, alone.
func TestPreviousArch(t *testing.T) {
	t.Parallel()
	var w wish
	for _, list := range []string{"", "sm_80", "sm_90a,sm_120"} {
		archs, _ := gpu.ParseArchs(list)
		w.previous(archs, list == "")
	}
	w.previous([]gpu.Arch{{}}, true)
	if gpu.Archs(w.Previous) != "sm_80" || w.PreviousUnset {
		t.Errorf("%+v", w.Wish)
	}
}

// What is fetched is what toolchain.Choose will then take.
func TestToFetch(t *testing.T) {
	v := func(major, minor int) gpu.Version { return gpu.Version{Major: major, Minor: minor} }
	old := gpu.Driver{Version: "550.54", CUDA: v(12, 4)}
	for name, tt := range map[string]struct {
		needs    toolchain.Needs
		driver   gpu.Driver
		max, pin gpu.Version
	}{
		"no limit":                 {toolchain.Needs{NVCC: true}, gpu.Driver{}, gpu.Version{}, gpu.Version{}},
		"the locked cudarc":        {toolchain.Needs{CudarcMax: v(12, 9)}, gpu.Driver{}, v(12, 9), gpu.Version{}},
		"PTX and an old driver":    {toolchain.Needs{CudarcMax: v(12, 9), EmbedsPTX: true}, old, v(12, 4), gpu.Version{}},
		"no PTX and an old driver": {toolchain.Needs{CudarcMax: v(12, 9)}, old, v(12, 9), gpu.Version{}},
		"a pin with libraries": {toolchain.Needs{Pin: v(12, 3), Libraries: true, CudarcMax: v(13, 4)}, gpu.Driver{},
			gpu.Version{}, v(12, 3)},
		"a pin that opens them at run time": {toolchain.Needs{Pin: v(12, 3), CudarcMax: v(12, 9)}, gpu.Driver{}, gpu.Version{},
			gpu.Version{}},
		"a pin, libraries, PTX, an old driver": {toolchain.Needs{Pin: v(12, 3), Libraries: true, EmbedsPTX: true}, old, v(12, 4), v(12, 3)},
	} {
		if w := ToFetch(toolchain.Facts{Driver: tt.driver}, tt.needs, toolchain.Wish{}, "linux"); w.MaxVersion != tt.max || w.Pin != tt.pin {
			t.Errorf("%s: %+v", name, w)
		}
	}
	whisper := toolchain.Needs{Libraries: true, Parts: toolchain.Parts([]string{"cublas_v2.h", "libcublas", "libcudart", "libculibos.a"})}
	for os, want := range map[string]string{"linux": "build cupti cublas culibos", "windows": "build cupti run"} {
		if got := strings.Join(ToFetch(toolchain.Facts{}, whisper, toolchain.Wish{}, os).Parts, " "); got != want {
			t.Errorf("for a crate that compiles with cuBLAS's header, %s: %s, want %s", os, got, want)
		}
	}
}

// TestInstallCommand: the command installs what the crates and the driver accept, with the parts that they need.
func TestInstallCommand(t *testing.T) {
	t.Parallel()
	v := func(major, minor int) gpu.Version { return gpu.Version{Major: major, Minor: minor} }
	for _, tt := range []struct {
		os, arch string
		needs    toolchain.Needs
		driver   gpu.Driver
		want     string
	}{
		{"linux", "amd64", toolchain.Needs{NVCC: true}, gpu.Driver{}, "gpubuild toolchain install 13.5"},
		{"windows", "amd64", toolchain.Needs{NVCC: true, EmbedsPTX: true}, gpu.Driver{Version: "580.65", CUDA: v(13, 0)}, "gpubuild toolchain install 13.0"},
		{"linux", "amd64", toolchain.Needs{NVCC: true}, gpu.Driver{Version: "550.54", CUDA: v(12, 4)}, "gpubuild toolchain install 12.9"},
		{"linux", "amd64", toolchain.Needs{CUDNN: true}, gpu.Driver{}, "gpubuild toolchain install 13.5 --parts cudnn"},
		{"windows", "amd64", toolchain.Needs{Libraries: true}, gpu.Driver{}, "gpubuild toolchain install 13.5 --parts run"},
		{"windows", "amd64", toolchain.Needs{NVCC: true, Parts: []string{"cublas"}}, gpu.Driver{}, "gpubuild toolchain install 13.5"},
		{"linux", "amd64", toolchain.Needs{CudarcMax: v(13, 2)}, gpu.Driver{}, "gpubuild toolchain install 13.2"},
		{"linux", "amd64", toolchain.Needs{CudarcMax: v(13, 2), EmbedsPTX: true}, gpu.Driver{Version: "580", CUDA: v(13, 4)}, "gpubuild toolchain install 13.2"},
		{"linux", "amd64", toolchain.Needs{CudarcMax: v(12, 4)}, gpu.Driver{}, "gpubuild toolchain install 12.4"}, // by NVIDIA's archives
		{"linux", "amd64", toolchain.Needs{Pin: v(99, 0), Libraries: true}, gpu.Driver{}, ""},
		{"linux", "riscv64", toolchain.Needs{CudarcMax: v(12, 4)}, gpu.Driver{}, ""},
	} {
		h := buildenv.Host{OS: tt.os, Arch: tt.arch, Files: hosttest.Memory(nil).Files}
		if got := InstallCommand(&session.Machine{Host: h, CacheDir: "/cache"}, toolchain.Facts{Driver: tt.driver}, tt.needs, toolchain.Wish{}); got != tt.want {
			t.Errorf("%s %s %+v: %q, want %q", tt.os, tt.arch, tt.needs, got, tt.want)
		}
	}
}

// TestFetchFitsTheMachine: of what can be fetched the newest is planned that GPU, driver and host compiler take, and why newer ones are not
// is said; where none is, nothing is fetched.
func TestFetchFitsTheMachine(t *testing.T) {
	t.Parallel()
	v := func(major, minor int) gpu.Version { return gpu.Version{Major: major, Minor: minor} }
	catalog := hosttest.Must(install.DefaultCatalog())(t)
	for _, tt := range []struct {
		kind         string
		major        int
		arch         string
		driver       gpu.Version
		want, reason string
	}{
		{"gcc", 16, "", gpu.Version{}, "13.5", ""},
		{"gcc", 15, "", v(13, 3), "13.3", "CUDA 13.5: the binary contains PTX, which driver 1 accepts only up to CUDA 13.3"},
		{"gcc", 16, "", v(13, 3), "", "CUDA 13.3: /usr/bin/cc: it is gcc 16, and CUDA 13.3 takes gcc up to 15 only"},
		{"gcc", 17, "", gpu.Version{}, "", "CUDA 13.4: /usr/bin/cc: it is gcc 17, and CUDA 13.4 takes gcc up to 16 only"},
		{"msvc", 1950, "", v(13, 2), "13.2", ""},
		{"msvc", 1950, "", v(13, 1), "", "CUDA 13.1: /usr/bin/cc: its _MSC_VER is 1950, and CUDA 13.1 takes _MSC_VER up to 1949 only"},
		{"msvc", 1936, "", v(13, 0), "13.0", ""},
		{"gcc", 12, "61", gpu.Version{}, "", "CUDA 13.0 compiles for sm_75 and newer, not for sm_61"},
	} {
		f := toolchain.Facts{Driver: gpu.Driver{Version: "1", CUDA: tt.driver},
			Compilers: []hostcc.Compiler{{Path: "/usr/bin/cc", CXX: "/usr/bin/cc", Kind: tt.kind, Major: tt.major}}}
		want := ToFetch(f, toolchain.Needs{NVCC: true, HostCompiler: true, EmbedsPTX: true}, toolchain.Wish{Arch: tt.arch}, "linux")
		want.MaxVersion = gpu.Version{} // the driver's limit, in the words of a build
		h := buildenv.Host{OS: "linux", Arch: "amd64", Files: hosttest.Memory(nil).Files}
		p, err := install.MakePlan(catalog, h, "/cache", want)
		said, got := strings.Join(p.Notes, "\n"), ""
		if err == nil {
			got = p.CUDA.String()
		} else {
			said = err.Error()
		}
		if got != tt.want || !strings.Contains(said, tt.reason) {
			t.Errorf("%s %d, sm_%s, driver for %s: %q, want %q: %s", tt.kind, tt.major, tt.arch, tt.driver, got, tt.want, said)
		}
	}
}

// TestAvailable: each release once, the newest first, and those that are pinned although NVIDIA's server cannot be asked.
func TestAvailable(t *testing.T) {
	t.Parallel()
	shop := t.TempDir()
	file := filepath.Join(shop, "cuda", "redist", "redistrib_12.3.2.json")
	hosttest.OK(t, errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte("{}"), 0o644)))
	for _, tt := range []struct {
		redist   string
		archives bool
		bad      bool
	}{{shop, true, false}, {"never", false, false}, {filepath.Join(shop, "gone"), false, true}} {
		h := hosttest.Must(local.Host())(t)
		h.OS, h.Arch = buildenv.Linux, "amd64"
		h.Env = buildenv.NewEnv(h.OS, []string{"GPUBUILD_REDIST=" + tt.redist})
		list, err := Available(t.Context(), &session.Machine{Host: h, CacheDir: "/cache"})
		text := strings.Join(list, "\n")
		if (err != nil) != tt.bad || !strings.HasPrefix(text, "13.5.0   by pip\n") || strings.Contains(text, "12.3.2   from NVIDIA's redistributable archives") != tt.archives {
			t.Errorf("%s: %v\n%s", tt.redist, err, text)
		}
	}
	h := hosttest.Memory(nil)
	h.Env = buildenv.NewEnv(h.OS, []string{"GPUBUILD_CONFIG=/gone"})
	if list, err := Available(t.Context(), &session.Machine{Host: h}); err == nil || len(list) == 0 {
		t.Errorf("a configuration that is gone: %d releases, %v", len(list), err)
	}
}

// TestProgress: each step and each file has a line; on a terminal a bar stands for the files.
func TestProgress(t *testing.T) {
	t.Parallel()
	events := []tree.Event{{Text: "a.whl", Total: 2e6}, {Text: "a.whl", Total: 2e6, Done: 2e6}, {Text: "b.whl", Total: 3e6}, {Text: "b.whl", Total: 3e6, Done: 1e6}, {Text: "the stubs"}}
	for terminal, want := range map[bool]string{false: "    Fetching a.whl (2 MB)\n    Fetching b.whl (3 MB)\n  Installing the stubs\n", true: "  Installing the stubs\n"} {
		var said strings.Builder
		p := &progress{shell: &console.Shell{Err: &said, ErrTerminal: terminal}, total: 5e6}
		for i, e := range events {
			p.show(e)
			if bar := p.set != nil; bar != (terminal && i < 4) {
				t.Errorf("terminal %v: a bar is %v after %d events", terminal, bar, i+1)
			}
		}
		p.end()
		if got := said.String(); !strings.HasSuffix(got, want) || !terminal && got != want || !p.fetched || p.before != 2e6 {
			t.Errorf("terminal %v: %q, %+v", terminal, got, p)
		}
	}
}

// TestPinnedCudarcAndDriver: bindings for a newer CUDA than the driver's are warned of; those that fit, and an unknown driver, are not.
func TestPinnedCudarcAndDriver(t *testing.T) {
	t.Parallel()
	pinned := func(feature string) catalog.Cudarc {
		c := catalog.CudarcOf([]string{"driver", feature})
		c.Version = "0.19.10"
		return c
	}
	driver := gpu.Version{Major: 12, Minor: 8}
	for _, tt := range []struct {
		story   string
		driver  gpu.Version
		feature string
		want    string
	}{
		{"newer than the driver", driver, "cuda-13000", "use cudarc's feature cuda-12080"},
		{"a newer minor version", driver, "cuda-12090", "supports CUDA 12.8"},
		{"the same", driver, "cuda-12080", ""},
		{"older", driver, "cuda-12040", ""},
		{"no version", driver, "cuda-version-from-build-system", ""},
		{"no driver", gpu.Version{}, "cuda-13000", ""},
	} {
		got := strings.Join(NewerThanDriver(tt.driver, []catalog.Cudarc{pinned(tt.feature)}), "; ")
		if tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.story, got, tt.want)
		}
	}
}
