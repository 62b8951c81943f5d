package doctor

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gpubuild/buildenv"
	"gpubuild/buildenv/hosttest"
	"gpubuild/buildenv/hosttest/need"
	"gpubuild/cmd/internal/console"
	"gpubuild/cmd/internal/session"
	"gpubuild/gpu"
	"gpubuild/toolchain"
	"gpubuild/toolchain/cargo"
	"gpubuild/toolchain/cuda"
	"gpubuild/toolchain/loader"
	"gpubuild/toolchain/msvc"
)

// packages are files that Debian's and NVIDIA's packages install, by their lists of files. TestAptCompiler compares Debian's with what apt
// installs. NVIDIA's names: docs.nvidia.com/cuda/cuda-installation-guide-linux (Meta Packages) and
// docs.nvidia.com/deeplearning/cudnn/installation (Linux, Package Manager).
var packages = map[string]string{
	"g++": "-- @links --\n/usr/bin/g++ -> g++-12\n/usr/bin/g++-12 -> x86_64-linux-gnu-g++-12\n/usr/bin/c++ -> g++\n" +
		"/usr/bin/gcc -> gcc-12\n/usr/bin/gcc-12 -> x86_64-linux-gnu-gcc-12\n" +
		"-- @empty --\n/usr/bin/x86_64-linux-gnu-g++-12 +x\n/usr/bin/x86_64-linux-gnu-gcc-12 +x\n",
	"cuda-libraries-12-4": "-- @empty --\n/usr/local/cuda-12.4/lib64/libcublas.so.12\n/usr/local/cuda-12.4/lib64/libcublasLt.so.12\n" +
		"/usr/local/cuda-12.4/lib64/libcufft.so.11\n",
	"cudnn9-cuda-12": "-- @empty --\n/usr/lib/x86_64-linux-gnu/libcudnn.so.9\n",
}

// bare is a Debian with a toolkit and no compiler.
const bare = `os: linux
arch: amd64
home: /home/u
cwd: /home/u/app
-- @env --
PATH=/usr/bin:/bin
-- @links --
/usr/local/cuda-12.4/lib64/libcudart.so -> libcudart.so.12
-- @empty --
/usr/local/cuda-12.4/bin/nvcc +x
/usr/local/cuda-12.4/nvvm/bin/cicc +x
/usr/local/cuda-12.4/include/nv/target
/usr/local/cuda-12.4/include/cuda_runtime.h
/usr/local/cuda-12.4/lib64/libcudart.so.12
-- /usr/local/cuda-12.4/version.json --
{"cuda": {"name": "CUDA SDK", "version": "12.4.1"}}
-- /usr/local/cuda-12.4/include/cuda.h --
#define CUDA_VERSION 12040
-- /usr/local/cuda-12.4/include/crt/host_config.h --
#if __GNUC__ > 13
#error -- unsupported GNU version!
#endif
`

// following is what the packages of a fix install, or an empty text if it is no apt command.
func following(t *testing.T, fix string) (files string) {
	t.Helper()
	names, isApt := strings.CutPrefix(strings.TrimPrefix(fix, "from NVIDIA's package repository: "), "apt install ")
	if !isApt {
		t.Errorf("the fix is %q", fix)
	}
	for _, name := range strings.Fields(names) {
		if packages[name] == "" {
			t.Errorf("no package %s", name)
		}
		files += packages[name]
	}
	return files
}

// fetched is what apt itself installs for a fix on a machine that has nothing yet.
func fetched(t *testing.T, fix string) (files string) {
	t.Helper()
	root := t.TempDir()
	hosttest.OK(t, os.MkdirAll(filepath.Join(root, "archives", "partial"), 0o755))
	hosttest.OK(t, os.WriteFile(filepath.Join(root, "status"), nil, 0o644))
	run := func(name string, args ...string) {
		t.Helper()
		if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
			t.Fatalf("%s %v: %v\n%s", name, args, err, out)
		}
	}
	run("apt-get", append([]string{"-o", "Dir::State::status=" + root + "/status", "-o", "Dir::Cache=" + root,
		"-o", "Dir::Cache::archives=" +
			root + "/archives", "-o", "Debug::NoLocking=1", "-o", "APT::Sandbox::User=root",
		"--download-only", "--no-install-recommends", "-qy"},
		strings.Fields(fix)[1:]...)...)
	debs, err := filepath.Glob(filepath.Join(root, "archives", "*.deb"))
	if err != nil || len(debs) == 0 {
		t.Fatalf("apt fetched nothing: %v", err)
	}
	for _, deb := range debs {
		run("dpkg-deb", "-x", deb, root)
	}
	programs := hosttest.Must(os.ReadDir(filepath.Join(root, "usr", "bin")))(t)
	var links, empty strings.Builder
	for _, e := range programs {
		if to, err := os.Readlink(filepath.Join(root, "usr", "bin", e.Name())); err == nil {
			fmt.Fprintf(&links, "/usr/bin/%s -> %s\n", e.Name(), to)
		} else {
			fmt.Fprintf(&empty, "/usr/bin/%s +x\n", e.Name())
		}
	}
	return "-- @links --\n" + links.String() + "-- @empty --\n" + empty.String()
}

// release is a machine whose nvcc says a release.
type release struct{ *hosttest.Script }

func (r release) Run(ctx context.Context, c buildenv.Cmd) (buildenv.Result, error) {
	if strings.HasSuffix(c.Path, "/nvcc") {
		return buildenv.Result{Stdout: []byte("release 12.4")}, nil
	}
	return r.Script.Run(ctx, c)
}

// TestAptCompiler follows the fix of a missing compiler, which changes the machine, on a machine of files: with those that the packages'
// lists name and, where it may, with those that apt itself brings.
func TestAptCompiler(t *testing.T) {
	t.Parallel()
	compiler := func(text string) Check {
		h := hosttest.Must(hosttest.Parse([]byte(text)))(t)
		m := &session.Machine{Host: h, Runner: release{hosttest.NewScript(t)}, Shell: &console.Shell{Out: io.Discard, Err: io.Discard},
			CacheDir: h.Join(h.Home, ".cache", "gpubuild")}
		f := hosttest.Must(Gather(context.Background(), m, cargo.Line{}, Options{}))(t)
		return checkHostCompiler(f)
	}
	before := compiler(bare)
	if before.State != Missing {
		t.Fatalf("without a compiler: %+v", before)
	}
	for story, install := range map[string]func(*testing.T, string) string{"listed": following, "fetched": fetched} {
		t.Run(story, func(t *testing.T) {
			if story == "fetched" {
				need.Tool(t, "apt")
			}
			if after := compiler(bare + install(t, before.Fix)); after.State != OK || after.Fix != "" {
				t.Errorf("after %s: %+v", before.Fix, after)
			}
		})
	}
}

// TestAptLibraries holds that the packages of the fix have every library that is missing.
func TestAptLibraries(t *testing.T) {
	t.Parallel()
	for _, missing := range [][]string{{"libcublas.so.12", "libcufft.so.11"}, {"libcudnn.so.9"}, {"libcublas.so.12", "libcudnn.so.9"}} {
		f := Facts{Host: buildenv.Host{OS: buildenv.Linux}, Cache: "/home/u/.cache/gpubuild",
			Chosen: toolchain.Set{Toolkit: &cuda.Toolkit{Root: "/usr/local/cuda-12.4", Version: gpu.Version{Major: 12, Minor: 4}}}}
		for _, name := range missing {
			f.Run.Libraries = append(f.Run.Libraries, RunLibrary{Found: loader.Library{Name: name, Kind: loader.Missing}})
		}
		fix := checkLoaderPath(f).Fix
		files := following(t, fix)
		for _, name := range missing {
			if !strings.Contains(files, "/"+name+"\n") {
				t.Errorf("%s does not install %s", fix, name)
			}
		}
	}
}

// TestRustupTarget follows the fix of a target that nvcc cannot link with: rustup's default toolchain is named by its target.
func TestRustupTarget(t *testing.T) {
	t.Parallel()
	f := Facts{Target: "x86_64-pc-windows-gnu", Needs: toolchain.Needs{CUDA: true, NVCC: true}}
	f.Host.Arch = "amd64"
	f.Host.OS = buildenv.Linux
	if fix := checkTarget(f).Fix; !strings.Contains(fix, "on Windows") {
		t.Errorf("on Linux, where rustup refuses that toolchain: %s", fix)
	}
	f.Host.OS = buildenv.Windows
	fix := checkTarget(f).Fix
	target, isRustup := strings.CutPrefix(fix, "rustup default stable-")
	if f.Target = target; !isRustup || checkTarget(f).State != OK {
		t.Errorf("after %s: %+v", fix, checkTarget(f))
	}
}

// TestNoCompilerOnWindows: without a toolkit, too, the fix is about the compiler.
func TestNoCompilerOnWindows(t *testing.T) {
	t.Parallel()
	f := Facts{Needs: toolchain.Needs{NVCC: true}, ChooseErr: &toolchain.MissingError{What: "CUDA toolkit", Fix: "get a toolkit"}}
	f.Toolchain.MSVC = &msvc.Found{}
	if c := checkHostCompiler(f); c.State != Missing || !strings.Contains(c.Fix, "VCTools") {
		t.Errorf("%+v", c)
	}
}
