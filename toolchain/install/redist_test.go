package install

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ulikunitz/xz"

	"gpubuild/buildenv"
	"gpubuild/buildenv/hosttest/need"
	"gpubuild/buildenv/local"
	"gpubuild/buildenv/proc"
	"gpubuild/gpu"
	"gpubuild/toolchain/install/redist"
	"gpubuild/toolchain/install/tree"
)

// tarred makes a .tar.xz in memory; an entry with fs.ModeSymlink links to its text.
func tarred(t testing.TB, entries ...entry) []byte {
	t.Helper()
	var b bytes.Buffer
	z, err := xz.NewWriter(&b)
	if err != nil {
		t.Fatal(err)
	}
	w := tar.NewWriter(z)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Typeflag: tar.TypeReg, Mode: int64(e.mode.Perm()), Size: int64(len(e.text))}
		switch {
		case e.mode&fs.ModeSymlink != 0:
			h.Typeflag, h.Linkname, h.Size = tar.TypeSymlink, e.text, 0
		case e.mode&fs.ModeDir != 0:
			h.Typeflag, h.Size = tar.TypeDir, 0
		case e.mode&fs.ModeDevice != 0:
			h.Typeflag, h.Size = tar.TypeBlock, 0
		case e.mode&fs.ModeIrregular != 0:
			h.Typeflag, h.Linkname, h.Size = tar.TypeLink, e.text, 0
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if h.Size > 0 {
			if _, err := w.Write([]byte(e.text)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// shop is a directory with the layout of NVIDIA's server.
type shop struct {
	t       testing.TB
	dir     string
	indexes map[string]map[string]any // by path
}

func newShop(t testing.TB) *shop { return &shop{t, t.TempDir(), map[string]map[string]any{}} }

// add puts an archive there and into the index of a release; variant is cuDNN's.
func (s *shop) add(product, label, comp, version, platform, variant string, data []byte) string {
	s.t.Helper()
	ext := ".tar.xz"
	if strings.HasPrefix(platform, "windows") {
		ext = ".zip"
	}
	name := strings.Join([]string{comp, platform, version}, "-")
	if variant != "" {
		name += "_" + variant
	}
	rel := comp + "/" + platform + "/" + name + "-archive" + ext
	file := filepath.Join(s.dir, product, "redist", filepath.FromSlash(rel))
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, data, 0o644)); err != nil {
		s.t.Fatal(err)
	}
	sum := sha256.Sum256(data)
	a := map[string]any{"relative_path": rel, "sha256": hex.EncodeToString(sum[:]), "md5": "0", "size": fmt.Sprint(len(data))}
	index := path.Join(product, "redist", "redistrib_"+label+".json")
	if s.indexes[index] == nil {
		s.indexes[index] = map[string]any{"release_date": "2026-01-01", "release_label": label, "release_product": product}
	}
	c, _ := s.indexes[index][comp].(map[string]any)
	if c == nil {
		c = map[string]any{"name": comp, "license": "CUDA Toolkit", "license_path": comp + "/LICENSE.txt", "version": version}
		s.indexes[index][comp] = c
	}
	if variant == "" {
		c[platform] = a
	} else {
		c[platform] = map[string]any{variant: a}
	}
	s.write(index)
	return file
}

func (s *shop) write(index string) {
	s.t.Helper()
	data, err := json.MarshalIndent(s.indexes[index], "", "    ")
	if err == nil {
		err = os.WriteFile(filepath.Join(s.dir, filepath.FromSlash(index)), data, 0o644)
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// release puts a small CUDA there, as NVIDIA lays it out: all of nvcc in one component before 13.
func (s *shop) release(label string) {
	major, _, _ := strings.Cut(label, ".")
	root := func(comp string, entries ...entry) []byte {
		all := []entry{{comp + "-archive/", "", fs.ModeDir | 0o755}, {comp + "-archive/LICENSE", "terms of " + comp, 0o644}}
		for _, e := range entries {
			e.name = comp + "-archive/" + e.name
			all = append(all, e)
		}
		return tarred(s.t, all...)
	}
	nvcc := []entry{{"bin/nvcc", "#!nvcc " + label, 0o755}, {"bin/nvcc.profile", "TOP = ..", 0o644}}
	nvvm := []entry{{"nvvm/bin/cicc", "cicc " + label, 0o755}}
	crt := []entry{{"include/crt/host_config.h", "#error", 0o644}}
	if major == "12" {
		nvcc, nvvm, crt = append(append(nvcc, nvvm...), crt...), nil, nil
	}
	for _, c := range []struct {
		name    string
		entries []entry
	}{
		{"cuda_nvcc", nvcc}, {"libnvvm", nvvm}, {"cuda_crt", crt},
		{"cuda_cudart", []entry{{"include/cuda.h", "int cuInit(int); int cuMemAlloc_v2 (int);", 0o644}, {"lib/libcudart.so.12.0.1", "cudart " + label, 0o644},
			{"lib/libcudart.so." + major, "libcudart.so.12.0.1", fs.ModeSymlink}, {"lib/libcudart.so", "libcudart.so." + major, fs.ModeSymlink}, {"lib/libcudart_static.a", "static", 0o644}}},
		{"cuda_cccl", []entry{{"include/nv/target", "target", 0o644}}},
		{"cuda_cupti", []entry{{"lib/libcupti.so." + major, "cupti " + label, 0o644}, {"samples/a.cu", "sample", 0o644}}},
		{"cuda_nvrtc", []entry{{"lib/libnvrtc.so." + major, "nvrtc " + label, 0o644}, {"lib/libnvrtc_static.a", "large", 0o644}}},
		{"libcublas", []entry{{"lib/libcublas.so." + major, "cublas " + label, 0o644}}},
		{"libcurand", []entry{{"lib/libcurand.so.10", "curand " + label, 0o644}}},
		{"libnvjitlink", []entry{{"lib/libnvJitLink.so." + major, "jitlink " + label, 0o644}}},
	} {
		if c.entries != nil {
			s.add("cuda", label, c.name, label+"9", "linux-x86_64", "", root(c.name, c.entries...))
		}
	}
}

func (s *shop) cudnn(label, variant string) {
	s.add("cudnn", label, "cudnn", label+".7", "linux-x86_64", variant, tarred(s.t, entry{"cudnn-archive/LICENSE", "cudnn terms", 0o644},
		entry{"cudnn-archive/include/cudnn.h", "cudnn " + label + " " + variant, 0o644}, entry{"cudnn-archive/lib/libcudnn.so.9", "cudnn", 0o644}))
}

// handler serves a shop; before is asked first and answers whether it has answered.
func (s *shop) serve(before func(w http.ResponseWriter, r *http.Request) bool) *httptest.Server {
	files := http.FileServer(http.Dir(s.dir))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if before == nil || !before(w, r) {
			if fi, err := os.Stat(filepath.Join(s.dir, filepath.FromSlash(r.URL.Path))); err == nil && !fi.IsDir() {
				w.Header().Set("ETag", fmt.Sprintf(`"%x-%x"`, fi.ModTime().UnixNano(), fi.Size()))
			}
			files.ServeHTTP(w, r)
		}
	}))
	s.t.Cleanup(server.Close)
	return server
}

func redistPlanFor(t testing.TB, h buildenv.Host, dir string, w Want, base string) (Plan, error) {
	t.Helper()
	c, err := DefaultCatalog()
	if err != nil {
		t.Fatal(err)
	}
	return MakeRedistPlan(context.Background(), c, h, dir, w, Redist{Base: base, Origin: "--redist"})
}

func TestRedistInstallsWhatABuildNeeds(t *testing.T) {
	linuxOnly(t)
	s := newShop(t)
	for _, label := range []string{"11.8.0", "12.4.0", "12.4.1", "13.0.2"} {
		s.release(label)
	}
	s.cudnn("8.9.7", "cuda12")
	s.cudnn("9.1.0", "cuda12")
	s.cudnn("9.5.0", "cuda13")
	server := s.serve(nil)
	tests := map[string]struct {
		base  string
		want  Want
		files map[string]string // "": must not be there
	}{
		"12 by name": {server.URL, Want{Exact: gpu.Version{Major: 12, Minor: 4}, Parts: []string{"build", "cupti", "run", "cudnn"}}, map[string]string{
			"bin/nvcc": "#!nvcc 12.4.1", "nvvm/bin/cicc": "cicc 12.4.1", "include/crt/host_config.h": "#error", "lib64/libcudart.so": "cudart 12.4.1", "lib/libcudart_static.a": "static",
			"lib/libcublas.so": "cublas", "lib/libnvrtc_static.a": "", "samples/a.cu": "", "LICENSE": "", "licenses/cuda_nvcc-12.4.19/LICENSE": "terms of cuda_nvcc",
			"include/cudnn.h": "cudnn 9.1.0 cuda12", "lib/libcudnn.so": "cudnn", "version.json": `"version": "12.4.1"`, "lib/stubs/libcuda.so": "cuMemAlloc_v2"}},
		"12 because of the driver": {server.URL + "/", Want{MaxVersion: gpu.Version{Major: 12, Minor: 8}, MaxBecause: "the driver"}, map[string]string{"bin/nvcc": "#!nvcc 12.4.1"}},
		"13 without a limit":       {server.URL, Want{}, map[string]string{"bin/nvcc": "#!nvcc 13.0.2", "nvvm/bin/cicc": "cicc 13.0.2", "include/crt/host_config.h": "#error"}},
		"12 from a directory":      {s.dir, Want{Exact: gpu.Version{Major: 12, Minor: 4}}, map[string]string{"bin/nvcc": "#!nvcc 12.4.1"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			home := filepath.Join(t.TempDir(), "my cache ünïcode")
			h := hostIn(t.TempDir())
			p, err := redistPlanFor(t, h, home, tt.want, tt.base)
			if err != nil {
				t.Fatal(err)
			}
			if text := strings.Join(p.Lines(), "\n"); !strings.Contains(text, "licence: NVIDIA CUDA") || !strings.Contains(text, "--redist") || !strings.Contains(text, "about ") {
				t.Errorf("the plan says\n%s", text)
			}
			if tt.base == s.dir && p.Fetch != 0 {
				t.Errorf("fetches %d bytes out of a directory", p.Fetch)
			}
			w := &fakeWorld{}
			root, err := p.Run(context.Background(), w, nil)
			if err != nil {
				t.Fatal(err)
			}
			for rel, want := range tt.files {
				data, err := os.ReadFile(filepath.Join(root, rel))
				if want == "" && !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("%s is there", rel)
				} else if want != "" && (err != nil || !strings.Contains(string(data), want)) {
					t.Errorf("%s: %q, %v; want %q", rel, data, err, want)
				}
			}
			if strings.Contains(strings.Join(w.calls, " "), "download") {
				t.Error("pip was asked")
			}
			in := Installed(h, home)
			if len(in) != 1 || len(leftovers(t, home)) > 0 {
				t.Fatalf("installed %+v, left %v", in, leftovers(t, home))
			}
			if bad := partial(t, in[0]); len(bad) > 0 {
				t.Errorf("verify: %v", bad)
			}
			if rest, _ := os.ReadDir(filepath.Join(home, wheelsDir)); len(rest) > 0 {
				t.Errorf("archives are left: %v", rest)
			}
			again, err := redistPlanFor(t, h, home, tt.want, "http://127.0.0.1:1/nobody/is/there")
			if err != nil || !again.Installed || again.Root != root {
				t.Errorf("what is installed is looked for again: %+v, %v", again, err)
			}
		})
	}
}

func TestRedistPlansThatCannotBe(t *testing.T) {
	linuxOnly(t)
	s := newShop(t)
	s.release("11.8.0")
	s.release("12.4.1")
	s.release("12.9.1")
	index := "cuda/redist/redistrib_12.9.1.json"
	change := func(comp, platform, key string, value any) func() {
		return func() { s.indexes[index][comp].(map[string]any)[platform].(map[string]any)[key] = value }
	}
	tests := map[string]struct {
		want   Want
		break_ func()
		err    string
	}{
		"a version that is not there":  {Want{Exact: gpu.Version{Major: 12, Minor: 5}}, nil, "to fetch for linux-x86_64"},
		"laid out in another way":      {Want{Exact: gpu.Version{Major: 11, Minor: 8}}, nil, "to fetch for linux-x86_64"},
		"older than all":               {Want{MaxVersion: gpu.Version{Major: 12, Minor: 1}}, nil, "CUDA 12.4.1 is newer than 12.1"},
		"no component":                 {Want{Exact: gpu.Version{Major: 12, Minor: 9}}, func() { delete(s.indexes[index], "cuda_cccl") }, "has no component cuda_cccl"},
		"not for this machine":         {Want{Exact: gpu.Version{Major: 12, Minor: 9}}, func() { delete(s.indexes[index]["cuda_nvcc"].(map[string]any), "linux-x86_64") }, "cuda_nvcc is not there for linux-x86_64"},
		"a path that leads out":        {Want{Exact: gpu.Version{Major: 12, Minor: 9}}, change("cuda_nvcc", "linux-x86_64", "relative_path", "../../../etc/a.tar.xz"), "not one below the index"},
		"an address for a path":        {Want{Exact: gpu.Version{Major: 12, Minor: 9}}, change("cuda_nvcc", "linux-x86_64", "relative_path", "https://elsewhere.example/a.tar.xz"), "not one below the index"},
		"another form":                 {Want{Exact: gpu.Version{Major: 12, Minor: 9}}, change("cuda_nvcc", "linux-x86_64", "relative_path", "cuda_nvcc/a.rar"), "neither a .tar.xz nor a .zip"},
		"no hash":                      {Want{Exact: gpu.Version{Major: 12, Minor: 9}}, change("cuda_nvcc", "linux-x86_64", "sha256", ""), "is no sha256"},
		"no size":                      {Want{Exact: gpu.Version{Major: 12, Minor: 9}}, change("cuda_nvcc", "linux-x86_64", "size", "-1"), "is no size"},
		"no cuDNN for it":              {Want{Exact: gpu.Version{Major: 12, Minor: 9}, Parts: []string{"build", "cudnn"}}, func() { s.cudnn("9.9.0", "cuda13") }, "no cuDNN 9 for CUDA 12"},
		"not the release but the next": {Want{}, func() { delete(s.indexes[index], "cuda_cccl") }, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s.release("12.9.1")
			if tt.break_ != nil {
				tt.break_()
				s.write(index)
			}
			p, err := redistPlanFor(t, testHost(t), t.TempDir(), tt.want, s.serve(nil).URL)
			var hint interface{ Hint() string }
			switch {
			case tt.err == "" && (err != nil || p.Release != "12.4.1" || !strings.Contains(strings.Join(p.Notes, " "), "cuda_cccl")):
				t.Errorf("%+v, %v", p, err)
			case tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err) || !errors.As(err, &hint)):
				t.Errorf("got %v, want %q", err, tt.err)
			}
		})
	}
	s.release("12.9.0") // which is not what the user means by 12.9, only because the index of 12.9.1 is wrong
	s.release("12.9.1")
	delete(s.indexes[index], "cuda_cccl")
	s.write(index)
	var wrong *redist.IndexError
	if p, err := redistPlanFor(t, testHost(t), t.TempDir(), Want{Exact: gpu.Version{Major: 12, Minor: 9}}, s.serve(nil).URL); !errors.As(err, &wrong) {
		t.Errorf("by version, and its newest release cannot be: %+v, %v", p, err)
	}
	if err := os.WriteFile(filepath.Join(s.dir, index), []byte("<html>"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := redistPlanFor(t, testHost(t), t.TempDir(), Want{Exact: gpu.Version{Major: 12, Minor: 9}}, s.dir); err == nil || !strings.Contains(err.Error(), "redistrib_12.9.1.json: invalid") {
		t.Errorf("an index that is none: %v", err)
	}
	for base, want := range map[string]string{"ftp://host.example/x": "https or http", "http://127.0.0.1:1": "no network", t.TempDir(): "no directory cuda/redist"} {
		if _, err := redistPlanFor(t, testHost(t), t.TempDir(), Want{}, base); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", base, err, want)
		}
	}
}

func TestRedistWrongHashIsNeverUnpacked(t *testing.T) {
	linuxOnly(t)
	for _, fromDir := range []bool{false, true} {
		s := newShop(t)
		s.release("12.4.1")
		file := filepath.Join(s.dir, "cuda/redist/cuda_nvcc/linux-x86_64/cuda_nvcc-linux-x86_64-12.4.19-archive.tar.xz")
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		data[len(data)/2] ^= 1
		if err := os.WriteFile(file, data, 0o644); err != nil {
			t.Fatal(err)
		}
		base := s.dir
		if !fromDir {
			base = s.serve(nil).URL
		}
		home, h := t.TempDir(), testHost(t)
		p, err := redistPlanFor(t, h, home, Want{}, base)
		if err != nil {
			t.Fatal(err)
		}
		_, err = p.Run(context.Background(), &fakeWorld{}, nil)
		var wrong *tree.HashError
		if !errors.As(err, &wrong) || len(Installed(h, home)) > 0 || len(leftovers(t, home)) > 0 {
			t.Errorf("from a directory %v: %v, installed %v", fromDir, err, Installed(h, home))
		}
	}
}

// Killed in the middle of an archive, the next run fetches the rest of it only; two at once fetch it once.
func TestRedistInterruptedAndTwice(t *testing.T) {
	linuxOnly(t)
	s := newShop(t)
	s.release("12.4.1")
	noise := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	for i := range noise {
		noise[i] ^= byte(i * i >> 7)
	}
	file := s.add("cuda", "12.4.1", "cuda_cccl", "12.4.19", "linux-x86_64", "", tarred(t, entry{"c/include/nv/target", string(noise), 0o644}))
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var mu sync.Mutex
	asked, first, home := []string{}, true, t.TempDir()
	server := s.serve(func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, filepath.Base(file)) {
			return false
		}
		mu.Lock()
		asked = append(asked, r.Header.Get("Range"))
		was := first
		first = false
		mu.Unlock()
		if !was {
			return false
		}
		data, err := os.ReadFile(file)
		fi, e := os.Stat(file)
		if err != nil || e != nil {
			t.Error(err, e)
			return true
		}
		w.Header().Set("ETag", fmt.Sprintf(`"%x-%x"`, fi.ModTime().UnixNano(), fi.Size()))
		w.Header().Set("Content-Length", fmt.Sprint(len(data)))
		_, _ = w.Write(data[:len(data)/2])
		w.(http.Flusher).Flush()
		for n := int64(0); n < int64(len(data)/2); time.Sleep(time.Millisecond) { // until it is written
			_ = filepath.WalkDir(home, func(_ string, d fs.DirEntry, _ error) error {
				if fi, err := d.Info(); err == nil && fi.Mode().IsRegular() {
					n = max(n, fi.Size())
				}
				return nil
			})
		}
		cancel()
		<-r.Context().Done()
		return true
	})
	h := testHost(t)
	p, err := redistPlanFor(t, h, home, Want{}, server.URL)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Run(ctx, &fakeWorld{}, nil); !errors.Is(err, context.Canceled) || len(Installed(h, home)) > 0 || len(leftovers(t, home)) > 0 {
		t.Fatalf("%v, installed %v, left %v", err, Installed(h, home), leftovers(t, home))
	}
	var wait sync.WaitGroup
	for i := 0; i < 3; i++ {
		wait.Add(1)
		go func() {
			defer wait.Done()
			p, err := redistPlanFor(t, h, home, Want{}, server.URL)
			if err == nil {
				_, err = p.Run(context.Background(), &fakeWorld{}, nil)
			}
			if err != nil {
				t.Error(err)
			}
		}()
	}
	wait.Wait()
	if len(asked) != 2 || asked[0] != "" || asked[1] == "" || len(Installed(h, home)) != 1 {
		t.Errorf("asked for %q, installed %v", asked, Installed(h, home))
	}
}

// The real nvcc, out of archives that are made of a real toolkit's files as NVIDIA packs them, compiles a kernel.
func TestRedistRealNVCC(t *testing.T) {
	toolkit := need.Toolkit(t)
	need.Asked(t, "cc", "xz")
	s := newShop(t)
	const label = "13.4.0"
	for comp, what := range map[string][]string{
		"cuda_nvcc": {"bin"}, "libnvvm": {"nvvm"}, "cuda_crt": {"include/crt"}, "cuda_cudart": {"include", "lib/libcudart*", "lib/libcudadevrt.a"}, "cuda_cccl": {"include/cccl"}} {
		root := filepath.Join(t.TempDir(), comp+"-linux-x86_64-13.4.92-archive")
		for _, pattern := range what {
			found, err := filepath.Glob(filepath.Join(toolkit, pattern))
			if err != nil || len(found) == 0 {
				t.Fatal(pattern, err)
			}
			for _, from := range found {
				rel, _ := filepath.Rel(toolkit, from)
				to := filepath.Join(root, rel)
				if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
					t.Fatal(err)
				}
				if out, err := exec.Command("cp", "-a", from, to).CombinedOutput(); err != nil {
					t.Fatalf("%s: %v", out, err)
				}
			}
		}
		if comp == "cuda_cudart" { // they are components of their own
			if err := errors.Join(os.RemoveAll(filepath.Join(root, "include/crt")), os.RemoveAll(filepath.Join(root, "include/cccl"))); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(root, "LICENSE"), []byte("terms"), 0o644); err != nil {
			t.Fatal(err)
		}
		c := exec.Command("tar", "-cJf", "-", "-C", filepath.Dir(root), filepath.Base(root))
		c.Env = append(os.Environ(), "XZ_OPT=-0 -T2")
		data, err := c.Output()
		if err != nil {
			t.Fatal(err)
		}
		s.add("cuda", label, comp, "13.4.92", "linux-x86_64", "", data)
	}
	h, err := local.Host()
	if err != nil {
		t.Fatal(err)
	}
	home := filepath.Join(t.TempDir(), "with space and ü")
	p, err := redistPlanFor(t, h, home, Want{Parts: []string{"build"}}, s.serve(nil).URL)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	root, err := p.Run(context.Background(), proc.Runner{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("installed %s in %.1f s", tree.Size(p.Fetch), time.Since(began).Seconds())
	compileKernel(t, h, root)
}
