package install

import (
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"gpubuild/buildenv"
	"gpubuild/buildenv/hosttest/need"
	"gpubuild/buildenv/local"
	"gpubuild/buildenv/proc"
	"gpubuild/gpu"
	"gpubuild/toolchain/install/tree"
)

// The real thing: the user's own pip, NVIDIA's own wheels, the real nvcc on a kernel, and the real linker on the stubs.
func TestRealToolkit(t *testing.T) {
	need.Asked(t, "network", "python")
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		need.Missing(t, "amd64", "needs Linux on x86-64")
	}
	h, err := local.Host()
	if err != nil {
		t.Fatal(err)
	}
	c, err := DefaultCatalog()
	if err != nil {
		t.Fatal(err)
	}
	versions := []gpu.Version{{Major: 13, Minor: 4}}
	if need.Given("network") == "every-version" {
		for _, s := range c.Sets[1:] {
			versions = append(versions, s.CUDA)
		}
	}
	for _, v := range versions {
		t.Run(v.String(), func(t *testing.T) { realToolkit(t, c, h, v) })
	}
}

// Ctrl-C while the real pip works: nothing half-written is left. The wheels that were complete are in pip's own cache.
func TestRealPipInterrupted(t *testing.T) {
	need.Asked(t, "network", "python")
	h, err := local.Host()
	if err != nil {
		t.Fatal(err)
	}
	c, err := DefaultCatalog()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() { // until pip has a wheel, or a part of one
		for ctx.Err() == nil {
			if found, _ := filepath.Glob(filepath.Join(dir, wheelsDir, scratchName, "*", "*.whl")); len(found) > 0 {
				cancel()
			}
			time.Sleep(20 * time.Millisecond)
		}
	}()
	_, err = plan(t, c, h, dir, Want{}).Run(ctx, proc.Runner{}, nil)
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	if in := Installed(h, dir); len(in) > 0 || len(leftovers(t, dir)) > 0 {
		t.Errorf("installed %+v, left %v", in, leftovers(t, dir))
	}
}

func realToolkit(t *testing.T, c *Catalog, h buildenv.Host, v gpu.Version) {
	dir, run, ctx := t.TempDir(), proc.Runner{}, context.Background()
	p := plan(t, c, h, dir, Want{Exact: v})
	for _, l := range p.Lines() {
		t.Log(l)
	}
	began := time.Now()
	root, err := p.Run(ctx, run, func(e tree.Event) {
		t.Logf("%5.1f s: %s %d of %d", time.Since(began).Seconds(), e.Text, e.Done, e.Total)
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("installed in %.1f s", time.Since(began).Seconds())
	in := Installed(h, dir)
	if len(in) != 1 {
		t.Fatalf("installed: %+v", in)
	}
	t.Logf("%s; the plan said %s", tree.Size(in[0].Bytes), tree.Size(p.Disk))
	began = time.Now()
	if bad := partial(t, in[0]); len(bad) > 0 {
		t.Errorf("verify: %v", bad)
	}
	t.Logf("verified in %.1f s", time.Since(began).Seconds())

	nvcc := filepath.Join(root, "bin", "nvcc")
	r, err := run.Run(ctx, buildenv.Cmd{Path: nvcc, Args: []string{"--version"}, Env: h.Env.Entries()})
	if err != nil || !strings.Contains(string(r.Stdout), "release "+v.String()+",") {
		t.Fatalf("%s, %v", r.Stdout, err)
	}
	compileKernel(t, h, root)

	// Each stub exports what programs link, under the name that they will ask the loader for.
	for lib, want := range map[string][2]string{"cuda": {"libcuda.so.1", "cuMemAlloc_v2"}, "cublas": {"libcublas.so.13", "cublasCreate_v2"},
		"cublasLt": {"libcublasLt.so.13", "cublasLtCreate"}, "curand": {"libcurand.so.10", "curandCreateGenerator"},
		"nvrtc": {"libnvrtc.so.13", "nvrtcCompileProgram"}, "cudnn": {"libcudnn.so.9", "cudnnCreate"}} {
		f, err := elf.Open(filepath.Join(root, "lib", "stubs", "lib"+lib+".so"))
		if err != nil {
			t.Error(err)
			continue
		}
		name, _ := f.DynString(elf.DT_SONAME)
		symbols, _ := f.DynamicSymbols()
		found := map[string]bool{}
		for _, s := range symbols {
			found[s.Name] = s.Section != elf.SHN_UNDEF
		}
		f.Close()
		if len(name) != 1 || name[0] != want[0] || !found[want[1]] || !found[tree.StubMark] {
			t.Errorf("stub of %s: soname %v, %s %v, %d symbols", lib, name, want[1], found[want[1]], len(symbols))
		}
		t.Logf("stub of %s: %d symbols", lib, len(symbols))
	}
}

// compileKernel has a toolkit's nvcc make a fatbin of a kernel that needs the runtime's, crt's and cccl's headers.
func compileKernel(t *testing.T, h buildenv.Host, root string) {
	t.Helper()
	work := t.TempDir()
	source := filepath.Join(work, "k.cu")
	if err := os.WriteFile(source, []byte("#include <cuda_fp16.h>\n#include <cub/cub.cuh>\n__global__ void twice(float *a) { a[threadIdx.x] *= 2; }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	fatbin := filepath.Join(work, "k.fatbin")
	if _, err := (proc.Runner{}).Run(context.Background(), buildenv.Cmd{Path: filepath.Join(root, "bin", "nvcc"), Args: []string{"-fatbin", "-arch=sm_90", "-o", fatbin, source}, Dir: work, Env: h.Env.Entries()}); err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(fatbin); err != nil || !bytes.HasPrefix(data, []byte{0x50, 0xed, 0x55, 0xba}) {
		t.Errorf("no fatbin: %v", err)
	}
}
