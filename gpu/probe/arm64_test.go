package probe

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gpubuild/buildenv"
	"gpubuild/buildenv/hosttest/need"
	"gpubuild/buildenv/local"
)

// TestArm64 builds the probe, its control and the stand-in driver for Linux on arm64 and runs them there, on a processor that qemu plays.
func TestArm64(t *testing.T) {
	const gcc, qemu, root = "aarch64-linux-gnu-gcc", "qemu-aarch64-static", "/usr/aarch64-linux-gnu"
	if h, err := local.Host(); err != nil || h.OS != buildenv.Linux {
		need.Missing(t, "linux", "qemu's user mode needs it")
	}
	need.Asked(t, "arm64", "qemu")
	dir, records := t.TempDir(), t.TempDir()
	strict := []string{"-std=c11", "-Wall", "-Wextra", "-Werror", "-O2", "-pthread"}
	library := append(strict[:len(strict):len(strict)], "-shared", "-fPIC", "-fvisibility=hidden")
	standin := func(name string) string { return filepath.Join("..", "..", "testdata", "standin", name) }
	at := func(name string) string { return filepath.Join(dir, name) }
	builds := [][]string{
		append(library[:len(library):len(library)], "-Wl,-soname,libcuda.so.1", standin("cuda.c"), "-o", at("libcuda.so.1"), "-ldl"),
		append(library[:len(library):len(library)], "-Wl,-soname,libcupti.so.13", standin("cupti.c"), "-o", at("libcupti.so.13"), "-ldl"),
	}
	for _, p := range parts(buildenv.Linux, CUDA) {
		c := compile(buildenv.Host{OS: buildenv.Linux}, Compiler{Path: gcc}, "csrc", dir, p)
		builds = append(builds, append(c.Args, "-Wall", "-Wextra", "-Werror"))
	}
	for _, args := range builds {
		if out, err := exec.Command(gcc, args...).CombinedOutput(); err != nil {
			t.Fatalf("%s %s: %v\n%s", gcc, strings.Join(args, " "), err, out)
		}
	}
	control := at("gpubuild-control")
	c := exec.Command(qemu, "-L", root, "-E", "LD_LIBRARY_PATH="+dir, control)
	c.Env = append(os.Environ(), InjectionVariable+"="+at("libgpubuild_probe.so"), DirVariable+"="+records, CUPTIVariable+"="+at("libcupti.so.13"))
	out, err := c.CombinedOutput()
	if err != nil || !strings.Contains(string(out), `"ok":true`) {
		t.Fatalf("%v\n%s", err, out)
	}
	r, err := ReadDir(records)
	if err != nil || r.Bad != 0 || r.Cut != 0 || len(r.Processes) != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	p := r.Processes[0]
	if len(p.Kernels) != 1 || p.Kernels[0].Name != "gpubuild_control" || p.End == nil || p.End.Accepted != 1 || p.End.Flush != 0 || len(p.Devices) != 1 || p.LibCUDA != at("libcuda.so.1") || p.Exe != control {
		t.Errorf("%+v", p)
	}
}
