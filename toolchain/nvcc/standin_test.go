package nvcc

import (
	"debug/pe"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gpubuild/buildenv"
	"gpubuild/buildenv/hosttest/need"
	"gpubuild/buildenv/local"
)

// TestStandIn: what its nvcc answers, that all it writes is marked, and that a linker refuses its objects.
func TestStandIn(t *testing.T) {
	t.Parallel()
	host, err := local.Host()
	if err != nil {
		t.Fatal(err)
	}
	root, err := StandIn(host, t.TempDir(), "12.8", self(t))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	nvcc := func(args ...string) (string, error) {
		for {
			cmd := exec.Command(filepath.Join(root, "bin", host.Exe("nvcc")), args...)
			cmd.Dir, cmd.Env = dir, append(os.Environ(), "CPATH="+filepath.Join(dir, "theirs"))
			if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(err.Error(), "text file busy") {
				return string(out), err
			}
		}
	}
	version, err := nvcc("--version")
	if lines := strings.Split(version, "\n"); err != nil || len(lines) < 4 || !strings.Contains(lines[3], "release 12.8, V12.8.") {
		t.Errorf("--version: %v %q", err, version)
	}
	if out, err := nvcc("--list-gpu-code"); err != nil || !strings.Contains(out, "sm_80\n") {
		t.Errorf("--list-gpu-code: %v %q", err, out)
	}
	write(t, filepath.Join(dir, "k.cu"), "__global__ void k() {}\n")
	for _, args := range []string{
		"-c k.cu -o k.o", "-dc k.cu -o dc.o -MD -MF k.d", "--ptx k.cu --output-directory .", "-cubin k.cu", "-fatbin k.cu", "--lib -o libk.a k.o",
		"-dlink k.o -o link.o", "k.o -o program",
	} {
		if out, err := nvcc(strings.Fields(args)...); err != nil {
			t.Errorf("%s: %v %s", args, err, out)
		}
	}
	for _, name := range []string{"k.o", "dc.o", "k.ptx", "k.cubin", "k.fatbin", "link.o", "program"} {
		if marked, err := Marked(filepath.Join(dir, name)); err != nil || !marked {
			t.Errorf("%s: %t, %v", name, marked, err)
		}
	}
	write(t, filepath.Join(dir, "torn"), strings.Repeat("x", 1<<20-20)+Mark)
	for name, want := range map[string]bool{"torn": true, "k.cu": false} {
		if marked, err := Marked(filepath.Join(dir, name)); err != nil || marked != want {
			t.Errorf("%s: %t, %v", name, marked, err)
		}
	}
	if out, err := nvcc("-c", "none.cu"); err == nil {
		t.Errorf("a file that is not there: %s", out)
	}
	if f, err := pe.NewFile(strings.NewReader(string(object(buildenv.Host{OS: buildenv.Windows})))); err != nil || len(f.Sections) != 0 {
		t.Errorf("COFF: %v", err)
	}
	if host.OS != buildenv.Linux || !need.Has("cc") {
		return
	}
	cc := need.CC(t)
	write(t, filepath.Join(dir, "theirs", "theirs.h"), "int from_their_directory;\n")
	write(t, filepath.Join(dir, "asks.cu"), "#include <theirs.h>\n")
	if out, err := nvcc("-E", "asks.cu"); err != nil || !strings.Contains(out, "from_their_directory") {
		t.Errorf("the host compiler does not see the environment: %v %s", err, out)
	}
	write(t, filepath.Join(dir, "main.c"), "int main(void) { return 0; }\n")
	link := func(object string) (string, error) {
		cmd := exec.Command(cc, "main.c", object, "-o", "linked")
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := link("k.o"); err == nil {
		t.Errorf("linked: %v %s", err, out)
	}
	if out, err := link("libk.a"); err != nil { // it has no member
		t.Errorf("%v %s", err, out)
	}
	if _, err := os.Stat(filepath.Join(root, "lib", "libstdc++.a")); err == nil {
		t.Error("the host compiler would link an empty libstdc++")
	}
}
