package app

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"sort"
	"strings"

	"gpubuild/buildenv/cache"
	"gpubuild/buildenv/stale"
	"gpubuild/features"
	"gpubuild/toolchain/cuda"
)

// hashes remembers the content of files by their identity, so that nvcc and what it runs (300 MB) are read once, not at every build.
type hashes struct {
	path  string
	Known map[string]string `json:"known"` // identity and path → sha256
	dirty bool
}

func (a *app) openHashes() *hashes {
	h := &hashes{path: a.host.Join(a.cacheDir, "hashes.json"), Known: map[string]string{}}
	if data, err := a.host.ReadFile(h.path, 16<<20); err == nil {
		if json.Unmarshal(data, h) != nil || h.Known == nil || len(h.Known) > 10_000 {
			h.Known = map[string]string{} // damaged, or grown for years: only time is lost
		}
	}
	return h
}

func (h *hashes) of(path string) (string, error) {
	id, err := cache.Identify(path)
	if err != nil {
		return "", err
	}
	key := fmt.Sprintf("%s %d %d %d %d", path, id.Size, id.MTime, id.Inode, id.Device)
	if sum, ok := h.Known[key]; ok {
		return sum, nil
	}
	sum, err := cache.Hash(path)
	if err != nil {
		return "", err
	}
	h.Known[key], h.dirty = sum, true
	return sum, nil
}

func (h *hashes) keep(a *app) {
	if !h.dirty {
		return
	}
	data, err := json.Marshal(h)
	if err == nil {
		if err = cache.Make(a.cacheDir); err == nil {
			err = cache.WriteFile(h.path, data, 0o600)
		}
	}
	if err != nil {
		a.shell.Detail("hashes are not kept: %v", err)
	}
}

// together hashes several files as one; those that are not there count by their absence.
func (h *hashes) together(paths ...string) (string, error) {
	sum := sha256.New()
	for _, p := range paths {
		one, err := h.of(p)
		if err != nil {
			one = "none"
		}
		fmt.Fprintln(sum, one)
	}
	return hex.EncodeToString(sum.Sum(nil)[:16]), nil
}

// inputsNow is what of the machine a GPU package's build script would be run with now: the things that cargo does not watch.
func (j *journey) inputsNow(in features.Inputs, h *hashes) ([]stale.Input, error) {
	var out []stale.Input
	t := j.set.Toolkit
	if t != nil && in.NVCC {
		hash, err := h.together(compilerFiles(j, t)...)
		if err != nil {
			return nil, err
		}
		out = append(out, stale.Input{Name: "nvcc", Value: label(t) + " " + t.NVCC, Hash: hash})
	}
	if t != nil && (in.NVCC || in.Root) {
		hash, err := h.together(j.host.Join(t.Include, "cuda.h"), j.host.Join(t.Include, "cuda_runtime.h"), j.host.Join(t.Include, "cuda_fp16.h"))
		if err != nil {
			return nil, err
		}
		out = append(out, stale.Input{Name: "CUDA headers", Value: t.Version.String() + " " + t.Include, Hash: hash})
	}
	if t != nil && in.Root && t.Lib != "" {
		// Libraries are linked by path: another directory is another input even with the same content.
		out = append(out, stale.Input{Name: "CUDA libraries", Value: t.Version.String() + " " + t.Lib})
	}
	if c := j.set.Compiler; c != nil && in.Host {
		hash, err := h.together(c.Real, c.CXX)
		if err != nil {
			return nil, err
		}
		out = append(out, stale.Input{Name: "host compiler", Value: c.Version + " " + c.Kind + " " + c.Path, Hash: hash})
	}
	if v := j.set.MSVC; v != nil && in.Host {
		out = append(out, stale.Input{Name: "Windows SDK", Value: v.SDK.Version + " " + v.SDK.Root + ", C run-time library " + v.UCRT.Version})
	}
	if in.Arch && !j.set.Capability.IsZero() {
		out = append(out, stale.Input{Name: "arch", Value: "sm_" + j.set.Capability.Digits()})
	}
	if c := j.set.CUDNN; c != nil && in.CUDNN {
		hash, err := h.together(j.host.Join(c.Include, "cudnn_version.h"))
		if err != nil {
			return nil, err
		}
		out = append(out, stale.Input{Name: "cuDNN", Value: c.Version + " " + c.Root, Hash: hash})
	}
	names := append([]string(nil), in.Env...)
	sort.Strings(names)
	for _, name := range names {
		if managed(name) {
			continue // its meaning is recorded above; its spelling is no reason to rebuild
		}
		if v, ok := j.env.Lookup(name); ok {
			out = append(out, stale.Input{Name: name, Value: v})
		}
	}
	return out, nil
}

// managed says whether a variable only names what is recorded by content already.
func managed(name string) bool {
	switch name {
	case "PATH", "CUDA_HOME", "CUDA_PATH", "CUDA_ROOT", "CUDA_TOOLKIT_ROOT_DIR", "NVCC", "NVCC_CCBIN", "CUDA_COMPUTE_CAP",
		"CUDNN_LIB", "CUDNN_PATH", "CUDNN_HOME", "CUDAFORGE_THREADS", "RAYON_NUM_THREADS", "LD_LIBRARY_PATH":
		return true
	}
	return strings.HasPrefix(name, "CARGO_")
}

// compilerFiles lists nvcc, what it runs, and the headers that it includes by itself.
func compilerFiles(j *journey, t *cuda.Toolkit) []string {
	h := j.host
	bin := h.Dir(h.Real(t.NVCC))
	root := h.Dir(bin)
	return []string{
		h.Real(t.NVCC), h.Join(bin, h.Exe("ptxas")), h.Join(bin, h.Exe("fatbinary")), h.Join(bin, h.Exe("cudafe++")), h.Join(bin, "nvcc.profile"),
		h.Join(root, "nvvm", "bin", h.Exe("cicc")), h.Join(t.Include, "crt", "host_config.h"),
	}
}

func label(t *cuda.Toolkit) string {
	if t.Label != "" {
		return t.Label
	}
	return t.Version.String()
}
