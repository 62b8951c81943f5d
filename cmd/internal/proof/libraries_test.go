package proof

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpubuild/buildenv/hosttest"
	"gpubuild/buildenv/local"
	"gpubuild/cmd/internal/config"
	"gpubuild/cmd/internal/console"
	"gpubuild/cmd/internal/session"
	"gpubuild/cmd/internal/tools"
	"gpubuild/features"
	"gpubuild/gpu"
	"gpubuild/toolchain/cargo"
	"gpubuild/toolchain/cuda"
)

// TestRemedies: what a user is told of a library that is nowhere.
func TestRemedies(t *testing.T) {
	for name, want := range map[string]string{
		"libcuda.so.1": "NVIDIA's driver", "nvcuda.dll": "NVIDIA's driver", "VCRUNTIME140_1.dll": "Visual C++ Redistributable", "libcudnn.so.9": "--parts run,cudnn", "cudnn64_9.dll": "--parts run,cudnn",
		"libcurand.so.10": "--parts run`", "cublas64_13.dll": "--parts run`", "libcublas.so.13": "--parts run`", "libcublas.so.12": "install 12.9 --parts run`", "cublasLt64_12.dll": "install 12.9 --parts run`",
		"libcurl.so.4": "", "user32.dll": "", "libcufft.so.11": "--parts run`", // cuFFT's own number
	} {
		got := Remedy(name)
		if want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q in it", name, got, want)
		}
	}
}

// TestChosenToolkitComesFirst: the libraries are looked for in the toolkit first that a build would take: that of a flag, GPUBUILD_CUDA,
// the project or the user.
func TestChosenToolkitComesFirst(t *testing.T) {
	t.Parallel()
	h := hosttest.Must(local.Host())(t)
	dir := t.TempDir()
	write := func(file, text string, mode os.FileMode) {
		t.Helper()
		file = filepath.Join(dir, file)
		hosttest.OK(t, errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), mode)))
	}
	for name, version := range map[string]string{"usual": "13.4", "other": "13.3"} {
		write(name+"/version.json", `{"cuda": {"name": "CUDA SDK", "version": "`+version+`.0"}}`, 0o644)
		write(name+"/"+h.Exe("bin/nvcc"), "", 0o755)
		write(name+"/include/cuda.h", "#define CUDA_VERSION "+strings.Replace(version, ".", "0", 1)+"0\n", 0o644)
	}
	other := filepath.Join(dir, "other")
	write("user.toml", "cuda = '"+other+"'\n", 0o644)
	write("nothing.toml", "", 0o644)
	write("elsewhere/none", "", 0o644)
	write("project/gpubuild.toml", "[toolchain]\ncuda = '"+other+"'\n", 0o644)
	h.Env = h.Env.Set("CUDA_HOME", filepath.Join(dir, "usual")).Unset("GPUBUILD_CUDA").Set(config.UserVariable, filepath.Join(dir, "nothing.toml"))
	for name, tt := range map[string]struct {
		dir, variable, value, flag, want string
	}{
		"nobody":   {dir: "elsewhere", want: "usual"},
		"variable": {dir: "elsewhere", variable: "GPUBUILD_CUDA", value: other, want: "other"},
		"flag":     {dir: "elsewhere", flag: other, want: "other"},
		"version":  {dir: "elsewhere", variable: "CUDA_PATH", value: other, flag: "13.3", want: "other"},
		"project":  {dir: "project", want: "other"},
		"user":     {dir: "elsewhere", variable: config.UserVariable, value: filepath.Join(dir, "user.toml"), want: "other"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := h
			h.Cwd = filepath.Join(dir, tt.dir)
			if tt.variable != "" {
				h.Env = h.Env.Set(tt.variable, tt.value)
			}
			m := &session.Machine{Host: h, CacheDir: t.TempDir(), Shell: &console.Shell{Out: io.Discard, Err: io.Discard}}
			s := hosttest.Must(session.Anywhere(t.Context(), m, cargo.Line{}))(t)
			first := hosttest.Must(tools.First(t.Context(), s, tt.flag))(t)
			if got := Toolkits(m, first); len(got) == 0 || got[0].Root != filepath.Join(dir, tt.want) {
				t.Errorf("the first is %+v", got)
			}
			if got := Toolkits(m, nil); name == "variable" && got[0].Root != other {
				t.Errorf("without a project the first is %s", got[0].Root)
			}
			for _, flag := range []string{filepath.Join(dir, "none"), "fetch"} {
				if _, err := tools.First(t.Context(), s, flag); err == nil {
					t.Errorf("toolkit=%s is taken", flag)
				}
			}
		})
	}
}

// TestWithoutKernels: what every C++ program links brings no kernels, and what only begins like it may.
func TestWithoutKernels(t *testing.T) {
	for name, want := range map[string]bool{"libstdc++.so.6": true, "libm.so.6": true, "libcudart.so.13": true, "ld-linux-x86-64.so.2": true,
		"libcublas.so.13": false, "libmykernels.so": false} {
		if withoutKernels.MatchString(name) != want {
			t.Errorf("%s: want %v", name, want)
		}
	}
}

// TestOpened: of a crate that has archives for two versions of CUDA, nvcc and variables decide which is taken.
func TestOpened(t *testing.T) {
	t.Parallel()
	const on = "-- @empty --\n/opt/cuda/bin/nvcc +x\n-- /opt/cuda/version.json --\n{\"cuda\": {\"version\": \"13.4.0\"}}\n"
	thirteen := &cuda.Toolkit{Version: gpu.Version{Major: 13, Minor: 4}}
	for _, tt := range []struct {
		env, files string
		chosen     *cuda.Toolkit
		want       int
	}{
		{"", "", nil, 12}, {"", "", thirteen, 13}, {"ORT_CUDA_VERSION=12", "", thirteen, 12}, {"ORT_CUDA_VERSION=13", "", nil, 13},
		{"CUDA_HOME=/usr/local/cuda-13.1", "", nil, 13}, {`CUDA_HOME=C:\CUDA\v13.1`, "", nil, 13}, {"NV_CUDA_CUDART_VERSION=13.0.96-1", "", nil, 13},
		{"CUDA_HOME=/usr/local/cuda-12.1", "", nil, 12}, {"PATH=/opt/cuda/bin", on, nil, 13}, {"PATH=/bin", on, nil, 12},
	} {
		h := hosttest.Must(hosttest.Parse([]byte("os: linux\n-- @env --\n" + tt.env + "\n" + tt.files)))(t)
		got := Opened(h, tt.chosen, []features.NeedReason{{Need: "libcublas", Major: 12, NVCC: 13}, {Need: "libcudart", Major: 11}})
		if got[0].Major != tt.want || got[1].Major != 11 {
			t.Errorf("%s %v: %+v", tt.env, tt.chosen, got)
		}
	}
}
