package install

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"gpubuild/buildenv"
)

// diskFiles are the real files: an installation is made of them.
type diskFiles struct{}

func (diskFiles) Stat(p string) (fs.FileInfo, error)      { return os.Stat(p) }
func (diskFiles) ReadDir(p string) ([]fs.DirEntry, error) { return os.ReadDir(p) }
func (diskFiles) Open(p string) (fs.File, error)          { return os.Open(p) }
func (diskFiles) EvalSymlinks(p string) (string, error)   { return filepath.EvalSymlinks(p) }
func testHost(t testing.TB) buildenv.Host                 { t.Helper(); return hostIn(t.TempDir()) }
func hostIn(dir string, entries ...string) buildenv.Host { // PATH leads to programs that only fakeWorld can run
	bin := filepath.Join(dir, "bin")
	_ = os.MkdirAll(bin, 0o755)
	for _, name := range []string{"python3", "cc"} {
		if runtime.GOOS == "windows" {
			name += ".exe"
		}
		_ = os.WriteFile(filepath.Join(bin, name), nil, 0o755)
	}
	return buildenv.Host{OS: runtime.GOOS, Arch: "amd64", Files: diskFiles{}, CPUs: 2, Cwd: dir,
		Env: buildenv.NewEnv(runtime.GOOS, append([]string{"PATH=" + bin, "HTTPS_PROXY=proxy.example:3128"}, entries...))}
}

type entry struct {
	name, text string
	mode       fs.FileMode
}

// zipped makes a wheel of entries in memory.
func zipped(entries ...entry) []byte {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, e := range entries {
		h := &zip.FileHeader{Name: e.name, Method: zip.Deflate}
		mode := e.mode
		if mode == 0 {
			mode = 0o644
		}
		h.SetMode(mode)
		w, err := z.CreateHeader(h)
		if err == nil {
			_, err = w.Write([]byte(e.text))
		}
		if err != nil {
			panic(err)
		}
	}
	if err := z.Close(); err != nil {
		panic(err)
	}
	return b.Bytes()
}

// shelf is what the fake package index has: file name and content.
type shelf map[string][]byte

func pinned(s shelf, part, pkg, version string, entries ...entry) string {
	under := strings.ReplaceAll(pkg, "-", "_")
	file := under + "-" + version + "-py3-none-manylinux2014_x86_64.manylinux_2_17_x86_64.whl"
	entries = append(entries, entry{name: under + "-" + version + ".dist-info/licenses/License.txt", text: "terms of " + pkg},
		entry{name: under + "-" + version + ".dist-info/RECORD", text: "x"}, entry{name: "nvidia/__init__.py"})
	data := zipped(entries...)
	s[file] = data
	sum := sha256.Sum256(data)
	return fmt.Sprintf("%s = { version = %q, size = %d, unpacked = 4096, sha256 = %q, file = %q }\n", part, version, len(data), hex.EncodeToString(sum[:]), file)
}

const catalogHead = `[licence.cuda]
name = "CUDA terms"
url = "https://docs.nvidia.com/cuda/eula/"
[group]
build = "compiles"
cupti = "records"
run = "runs"
[[part]]
name = "nvcc"
package = "nvidia-cuda-nvcc"
group = "build"
licence = "cuda"
[[part]]
name = "runtime"
package = "nvidia-cuda-runtime"
group = "build"
licence = "cuda"
[[part]]
name = "cupti"
package = "nvidia-cuda-cupti"
group = "cupti"
licence = "cuda"
[[part]]
name = "cublas"
package = "nvidia-cublas"
group = "run"
licence = "cuda"
`

// small is a catalog of two tiny toolkits and the index that has their wheels.
func small(t testing.TB) (*Catalog, shelf) {
	t.Helper()
	s := shelf{}
	var b strings.Builder
	b.WriteString(catalogHead)
	for _, v := range []string{"13.4", "13.0"} {
		fmt.Fprintf(&b, "[[set]]\ncuda = %q\nrelease = %q\n[set.platform.%s]\n", v, v+".1", runtime.GOOS+"-x86_64")
		b.WriteString(pinned(s, "nvcc", "nvidia-cuda-nvcc", v+".88", entry{name: "nvidia/cu13/bin/nvcc", text: "#!nvcc " + v, mode: 0o744},
			entry{name: "nvidia/cu13/bin/nvcc.profile", text: "TOP = .."}, entry{name: "nvidia/cu13/lib/libnvvm.so.4", text: "nvvm " + v}))
		b.WriteString(pinned(s, "runtime", "nvidia-cuda-runtime", v+".89", entry{name: "nvidia/cu13/include/cuda.h", text: "int cuInit(int); int cuMemAlloc_v2 (int);"},
			entry{name: "nvidia/cu13/lib/libcudart.so.13", text: "cudart " + v}))
		b.WriteString(pinned(s, "cupti", "nvidia-cuda-cupti", v+".90", entry{name: "nvidia/cu13/lib/libcupti.so.13", text: "cupti " + v}))
		b.WriteString(pinned(s, "cublas", "nvidia-cublas", v+".91", entry{name: "nvidia/cu13/lib/libcublas.so.13", text: "cublas " + v}))
	}
	c, err := ParseCatalog([]byte(b.String()))
	if err != nil {
		t.Fatal(err)
	}
	return c, s
}

// fakeWorld carries out what an installation asks of pip and the C compiler, on a shelf of wheels.
type fakeWorld struct {
	shelf shelf
	fail  func(what string, c buildenv.Cmd) error // what: version, download, preprocess, stub; an error instead of the work
	mu    sync.Mutex
	calls []string
	cmds  []buildenv.Cmd
	asked string // the requirements of all downloads
}

func (w *fakeWorld) Run(ctx context.Context, c buildenv.Cmd) (buildenv.Result, error) {
	line := strings.Join(c.Args, " ")
	what := "?"
	for word, name := range map[string]string{"--version": "version", "-c": "version", "download": "download", "-E": "preprocess", "-shared": "stub"} {
		if strings.Contains(" "+line+" ", " "+word+" ") {
			what = name
		}
	}
	w.mu.Lock()
	w.calls, w.cmds = append(w.calls, what), append(w.cmds, c)
	w.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return buildenv.Result{}, err
	}
	if w.fail != nil {
		if err := w.fail(what, c); err != nil {
			var x *buildenv.ExitError
			if errors.As(err, &x) {
				return x.Result, err
			}
			return buildenv.Result{}, err
		}
	}
	after := func(flag string) string {
		for i, a := range c.Args {
			if a == flag {
				return c.Args[i+1]
			}
		}
		return ""
	}
	switch what {
	case "version":
		return buildenv.Result{Stdout: []byte("pip 23.2.1 from /lib/pip (python 3.11)\n")}, nil
	case "download":
		text, err := os.ReadFile(after("--requirement"))
		if err != nil {
			return buildenv.Result{}, err
		}
		w.mu.Lock()
		w.asked += string(text)
		w.mu.Unlock()
		for _, r := range strings.Split(strings.TrimSpace(string(text)), "\n") {
			spec, _, _ := strings.Cut(r, " ")
			pkg, version, _ := strings.Cut(spec, "==")
			prefix := strings.ReplaceAll(pkg, "-", "_") + "-" + version + "-"
			for file, data := range w.shelf {
				if strings.HasPrefix(file, prefix) {
					if err := os.WriteFile(filepath.Join(after("--dest"), file), data, 0o644); err != nil {
						return buildenv.Result{}, err
					}
				}
			}
		}
	case "preprocess":
		for _, a := range c.Args {
			if dir, ok := strings.CutPrefix(a, "-I"); ok {
				data, err := os.ReadFile(filepath.Join(dir, "cuda.h"))
				return buildenv.Result{Stdout: data}, err
			}
		}
	case "stub":
		source, err := os.ReadFile(c.Args[len(c.Args)-1])
		if err != nil {
			return buildenv.Result{}, err
		}
		return buildenv.Result{}, os.WriteFile(after("-o"), source, 0o755)
	default:
		return buildenv.Result{}, fmt.Errorf("unexpected command %s", c)
	}
	return buildenv.Result{}, nil
}

// exitsWith1 is the error of a program that wrote text and ended with status 1.
func exitsWith1(c buildenv.Cmd, text string) error {
	return &buildenv.ExitError{Cmd: c, Result: buildenv.Result{Code: 1, Stderr: []byte(text)}}
}

// leftovers lists what a cache holds besides complete toolkits, wheels that wait and locks.
func leftovers(t testing.TB, cacheDir string) []string {
	t.Helper()
	var out []string
	for _, dir := range []string{toolkitsDir, wheelsDir} {
		entries, err := os.ReadDir(filepath.Join(cacheDir, dir))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		for _, e := range entries {
			if strings.HasPrefix(e.Name(), ".") && !strings.HasSuffix(e.Name(), ".lock") && !strings.HasSuffix(e.Name(), ".holder") {
				out = append(out, dir+"/"+e.Name())
			}
		}
	}
	return out
}
