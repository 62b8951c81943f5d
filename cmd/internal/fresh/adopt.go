package fresh

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"regexp"
	"slices"
	"strings"

	"gpubuild/buildenv/stale"
	"gpubuild/features"
	"gpubuild/gpu"
	"gpubuild/toolchain/cargo/builddir"
)

// scriptCUDA is the CUDA version, and scriptCUDNN the cuDNN version, that cudarc's script told rustc. Source: cudarc 0.19.10
// build.rs (cuda_version_from_build_system, cudnn_version_from_build_system): cfgs feature="cuda-13040", feature="cudnn-09021".
func scriptCUDA(cfgs []string) string {
	for _, c := range cfgs {
		if m := cudarcCfg.FindStringSubmatch(c); m != nil && m[1] == "cuda" {
			return strings.TrimLeft(m[2], "0") + "." + trimZeros(m[3])
		}
	}
	return ""
}

// buildVersion are the variables by which scripts tell rustc the toolkit that they were
// built with: MISTRALRS_BUILD_CUDA_VERSION of mistralrs-core and its crates. A variable of
// another name, such as cudarc's CUDA_MAJOR_VERSION, may tell a version that a feature pins.
var buildVersion = regexp.MustCompile(`(^|_)BUILD_CUDA_VERSION$`)

// scriptEnvCUDA is the CUDA version that a script told rustc in a variable; empty where none does, or several differ.
func scriptEnvCUDA(env map[string]string) string {
	told := ""
	for name, value := range env {
		if m := majorMinor.FindString(value); m != "" && buildVersion.MatchString(name) {
			if told != "" && told != m {
				return ""
			}
			told = m
		}
	}
	return told
}

var majorMinor = regexp.MustCompile(`^\d{1,2}\.\d{1,2}`)

func scriptCUDNN(cfgs []string) string {
	for _, c := range cfgs {
		if m := cudarcCfg.FindStringSubmatch(c); m != nil && m[1] == "cudnn" {
			return trimZeros(m[2]) + "." + trimZeros(m[3]+m[4])
		}
	}
	return ""
}

// cuda-13040 is 13.4 (two digits, two, one); cudnn-09021 is 9.21 (two, three).
var cudarcCfg = regexp.MustCompile(`^feature="(cuda|cudnn)-(\d\d)(\d\d)(\d)"$`)

func trimZeros(s string) string {
	if s = strings.TrimLeft(s, "0"); s == "" {
		return "0"
	}
	return s
}

// adopt asks what lies in the build directory of the units of which no record tells. What
// shows itself to be what would be built now is taken over as it is; what shows that it
// is not has a reason; the rest stays unknown, with a word on what could not be told.
func (s *State) adopt(ctx context.Context) {
	var unknown []stale.Doubt
	for _, d := range s.compared.Unknown {
		u, ok := s.unitOf(d.Key)
		// Another workspace's sources may differ, of which nothing here tells.
		if !ok || d.OutDir == "" || d.Foreign {
			unknown = append(unknown, d)
			continue
		}
		if s.interrupted(d.OutDir) {
			d.Why = "its build script was interrupted, and may have left half of what it makes"
			unknown = append(unknown, d)
			continue
		}
		traces, err := s.traces(d.OutDir, u.Inputs.Arch)
		if err != nil {
			d.Why += ", and " + err.Error()
			unknown = append(unknown, d)
			continue
		}
		for _, e := range s.record.Entries {
			if e.Key == d.Key {
				traces.Was = e.Inputs
			}
		}
		asks := s.asks(ctx, u)
		got := stale.Adopt(d.Unit, asks, traces)
		if len(got.Reasons) > 0 && len(got.Open) == 0 && s.knownChoice(u, d.ScriptRan, asks.Want, traces.Code) {
			// It is not what was asked for, and was not either when it was built from nothing.
			got.Reasons = nil
		}
		switch {
		case len(got.Reasons) > 0:
			s.compared.Reasons = append(s.compared.Reasons, got.Reasons...)
			if !slices.Contains(s.compared.Clean, d.Package) {
				s.compared.Clean = append(s.compared.Clean, d.Package)
			}
		case len(got.Open) > 0:
			d.Why += ", and " + got.Open[0]
			unknown = append(unknown, d)
		default:
			s.adopted = append(s.adopted, adopted{Doubt: d, trusted: got.Trusted})
		}
	}
	s.compared.Unknown = unknown
}

// tellAdopted says which packages were taken over, and on what trust.
func (s *State) tellAdopted(cleaned []string) {
	for i, a := range s.adopted {
		if slices.Contains(cleaned, a.Package) || a.told || i > 0 && s.adopted[i-1].Package == a.Package {
			continue
		}
		s.adopted[i].told = true
		s.shell.Status("Adopted", "%s: %s", a.Package, a.words())
	}
}

// knownChoice says whether the mismatches of code are those that were found
// before in a package that had just been built from nothing.
func (s *State) knownChoice(u features.ScriptUnit, ran int64, want stale.Want, code []stale.Code) bool {
	f := &mistake{unit: u, features: featureKey(u.Features), want: want, list: stale.Hold(code, want).Mismatches, scriptRan: ran}
	wrong, ok := s.accepted(f)
	return ok && wrong == "" && len(f.list) > 0
}

// asks is what a unit's traces must answer for the tools that were chosen.
func (s *State) asks(ctx context.Context, u features.ScriptUnit) stale.Asks {
	in := u.Inputs
	a := stale.Asks{Compiles: in.Arch, Version: in.NVCC && !in.Arch, Libraries: in.Root, CUDNN: in.CUDNN, Want: s.wanted(ctx, in)}
	if t := s.b.Tools.Set.Toolkit; t != nil {
		a.CUDA, a.Library, a.Compiler = t.Version.String(), s.host.Real(t.Lib), s.host.Real(t.NVCC)
	}
	if c := s.b.Tools.Set.CUDNN; c != nil {
		if v, err := gpu.ParseVersion(c.Version); err == nil {
			a.CUDNNVersion = v.String()
		}
	}
	if c := s.b.Tools.Set.Compiler; c != nil {
		a.Host = c.Kind + " " + c.Version
	}
	return a
}

// traces reads what tells of the build that made an OUT_DIR: what its script printed and, where it compiles kernels, its device
// code and the caches of CMake and cudaforge. Scripts that compile none may have unpacked gigabytes of libraries there, which
// tell nothing of this build.
func (s *State) traces(outDir string, compiles bool) (stale.Traces, error) {
	var held holding
	if compiles {
		var err error
		if held, err = s.holds(outDir); err != nil {
			return stale.Traces{}, err
		}
	}
	t := stale.Traces{Code: held.Code, Hosts: held.Hosts}
	said, err := builddir.Output(s.host, outDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return t, err
	}
	t.CUDA, t.CUDNN, t.Declared = scriptCUDA(said.Cfgs), scriptCUDNN(said.Cfgs), said.Watched
	if t.CUDA == "" {
		t.CUDA = scriptEnvCUDA(said.Env)
	}
	for _, dir := range said.Searched {
		if s.holdsToolkitLibraries(dir) {
			if real := s.host.Real(dir); !slices.Contains(t.Libraries, real) {
				t.Libraries = append(t.Libraries, real)
			}
		}
	}
	for name, p := range s.bundled(said.Searched, said.Linked) {
		// a library of the toolkit shows itself otherwise
		if tk := s.b.Tools.Set.Toolkit; tk == nil || !s.host.Below(s.host.Real(p), s.host.Real(tk.Root)) {
			t.Bundled = append(t.Bundled, staticLibrary+name)
		}
	}
	for _, path := range held.Notes {
		data, err := s.host.ReadFile(path, recordLimit)
		if err != nil {
			return t, err
		}
		if s.host.Base(path) == "CMakeCache.txt" {
			t.Compilers = append(t.Compilers, s.cmakeCompilers(string(data))...)
			continue
		}
		t.Archs = append(t.Archs, s.cudaforgeArchs(data, outDir)...)
	}
	return t, nil
}

// holdsToolkitLibraries says whether a linker would find the toolkit's libraries in a directory; stubs are not linked by path.
func (s *State) holdsToolkitLibraries(dir string) bool {
	if !s.host.IsAbs(dir) || s.host.Base(dir) == "stubs" || s.host.Below(dir, s.b.Graph.Places.BuildDirectory) {
		return false
	}
	for _, name := range s.host.Names(dir) {
		for _, lib := range []string{"libcudart", "libcublas", "libnvrtc", "cudart.lib", "cublas.lib"} {
			if strings.HasPrefix(name, lib) {
				return true
			}
		}
	}
	return false
}

var cmakeCompiler = regexp.MustCompile(`(?m)^(?:CMAKE_CUDA_COMPILER|CUDAToolkit_NVCC_EXECUTABLE):[A-Z]+=(.+?)\r?$`)

// cmakeCompilers lists the nvccs that a CMakeCache.txt keeps, the chosen one under its own name when its content is the same
// (cmake(1), "CMakeCache.txt": KEY:TYPE=VALUE, and what stands there wins over the environment).
func (s *State) cmakeCompilers(text string) []string {
	var out []string
	for _, m := range cmakeCompiler.FindAllStringSubmatch(text, -1) {
		path := s.host.Real(m[1])
		if !s.host.IsAbs(path) || strings.HasSuffix(path, "-NOTFOUND") {
			continue
		}
		if t := s.b.Tools.Set.Toolkit; t != nil {
			chosen := s.host.Real(t.NVCC)
			a, errA := s.hashes.Together(path)
			b, errB := s.hashes.Together(chosen)
			if errA == nil && errB == nil && a == b {
				path = chosen
			}
		}
		if !slices.Contains(out, path) {
			out = append(out, path)
		}
	}
	return out
}

// cudaforgeArchs lists the architectures for which cudaforge keeps objects that are still there (cudaforge 0.1.5 src/hash.rs:
// entries by source and object, each with object_path and gpu_arch).
func (s *State) cudaforgeArchs(data []byte, outDir string) []gpu.Arch {
	var kept struct {
		Entries map[string]struct {
			Object string `json:"object_path"`
			Arch   string `json:"gpu_arch"`
		} `json:"entries"`
	}
	if json.Unmarshal(data, &kept) != nil {
		return nil // cudaforge itself begins anew then
	}
	var out []gpu.Arch
	seen := map[gpu.Arch]bool{}
	for _, e := range kept.Entries {
		// The directory may have been moved since, as caches of CI do.
		if !s.host.IsFile(s.host.Join(outDir, s.host.Base(e.Object))) {
			continue
		}
		if a, err := gpu.ParseArch(e.Arch); err == nil && !seen[a] {
			seen[a] = true
			out = append(out, a)
		}
	}
	return out
}
