package audit

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"gpubuild/buildenv/hosttest/need"
	"gpubuild/buildenv/local"
	"gpubuild/buildenv/proc"
	"gpubuild/gpu/probe"
)

// asks opens the driver by the name that it is given, and ends with what two of its functions answer.
const asks = `#include <dlfcn.h>
#include <stddef.h>
int main(int n, char **a) {
    void *h = dlopen(a[1], RTLD_NOW); long p; (void)n;
    int (*init)(unsigned) = (int (*)(unsigned))dlsym(h, "cuInit"), (*alloc)(long *, size_t) = (int (*)(long *, size_t))dlsym(h, "cuMemAlloc_v2");
    return 10 * init(0) + alloc(&p, 4);
}
`

// TestTheModeIsFoundByAnyName: a program may load the failing driver by its link, as cudarc does, and gets the answers of the mode all the same.
func TestTheModeIsFoundByAnyName(t *testing.T) {
	gcc := need.CC(t)
	if runtime.GOOS != "linux" {
		need.Missing(t, "linux", "it makes ELF files")
	}
	h, err := local.Host()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	source, program := filepath.Join(dir, "asks.c"), filepath.Join(dir, "asks")
	if err := os.WriteFile(source, []byte(asks), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(gcc, "-o", program, source, "-ldl").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, name := range []string{"libcuda.so.1", "libcuda.so"} {
		modes, err := Run(t.Context(), h, proc.Runner{}, Options{Binary: program, Args: []string{name}, Env: h.Env, Dir: t.TempDir(), Compiler: probe.Compiler{Path: gcc}})
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]int{"no-device": (10*100 + 100) & 255, "oom": 2, "no-binary": 0, "wrong-data": 0}
		for _, m := range modes {
			if code, is := want[m.Mode]; is && m.Code != code {
				t.Errorf("%s, %s: ended with %d, want %d", name, m.Mode, m.Code, code)
			}
		}
	}
}
