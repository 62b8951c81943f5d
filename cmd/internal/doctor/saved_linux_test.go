package doctor

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpubuild/buildenv"
	"gpubuild/buildenv/hosttest"
	"gpubuild/buildenv/hosttest/need"
	"gpubuild/buildenv/local"
	"gpubuild/buildenv/proc"
	"gpubuild/buildenv/saved"
	"gpubuild/cmd/internal/console"
	"gpubuild/cmd/internal/session"
	"gpubuild/toolchain/cargo"
)

// TestThisMachineSaved saves the machine that the test runs on, its real compilers, links and toolkit, and asks doctor of the copy. cargo,
// the project and the disk are no part of a saved machine.
func TestThisMachineSaved(t *testing.T) {
	real, err := local.Host()
	if err != nil {
		t.Fatal(err)
	}
	real.Env = real.Env.Set("PATH", need.CompilerWithoutNumber(t)+":/usr/bin:/bin").Unset("CARGO").Unset("LD_LIBRARY_PATH")
	real.Cwd = t.TempDir()
	toolkits := []string{""}
	if roots, _ := need.FindToolkits(); len(roots) > 0 {
		root := roots[0]
		link := filepath.Join(t.TempDir(), "toolkit")
		if err := os.Symlink(root, link); err != nil {
			t.Fatal(err)
		}
		toolkits = append(toolkits, root, link+"/")
	}
	for _, root := range toolkits {
		h := real
		if root != "" {
			h.Env = h.Env.Set("CUDA_HOME", root)
		}
		tell := func(h buildenv.Host, run session.Runner) string {
			m := &session.Machine{Host: h, Runner: run, Shell: &console.Shell{Out: io.Discard, Err: io.Discard},
				CacheDir: h.Join(h.Home, "no-cache-of-gpubuild")}
			f, err := Gather(context.Background(), m, cargo.Line{}, Options{})
			if err != nil {
				t.Fatal(err)
			}
			var kept []Check
			for _, c := range Run(f) {
				switch c.ID {
				case "cargo", "rust.target", "project", "cache", "disk":
				default:
					kept = append(kept, c)
				}
			}
			return Text(kept)
		}
		rec := saved.NewRecorder(h, func(p string) bool { return h.Below(p, h.Cwd) })
		told := tell(rec.Host(), hearing{proc.Runner{}, rec, h})
		data := rec.Encode(told)
		head, _, _ := strings.Cut(string(data), "\nos: ")
		var want strings.Builder // as the file itself tells it, with its names
		for _, line := range strings.Split(head, "\n") {
			if !strings.HasPrefix(line, "# left out: ") {
				want.WriteString(strings.TrimPrefix(strings.TrimPrefix(line, "#"), " ") + "\n")
			}
		}
		copied, err := hosttest.Parse(data)
		if err != nil {
			t.Fatalf("%v\n%s", err, data)
		}
		steps, err := hosttest.Commands(data)
		if err != nil {
			t.Fatal(err)
		}
		if got := tell(copied, hosttest.NewScript(t, steps...)); strings.TrimSpace(got) != strings.TrimSpace(want.String()) {
			t.Errorf("the copy's report is\n%s\nthe machine's\n%s\nthe copy:\n%s", got, told, data)
		}
		if root != "" && !strings.Contains(told, "✓ cuda.toolkit") {
			t.Errorf("the toolkit is not found:\n%s", told)
		}
	}
}
