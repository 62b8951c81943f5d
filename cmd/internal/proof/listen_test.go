package proof

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"gpubuild/buildenv/hosttest"
	"gpubuild/buildenv/local"
	"gpubuild/cmd/internal/console"
	"gpubuild/cmd/internal/session"
	"gpubuild/toolchain/explain"
)

// What gpubuild itself says after the program ended is not explained, also where both write to one file.
func TestOnlyTheProgramIsExplained(t *testing.T) {
	t.Parallel()
	const known = "libcuda.so.1: cannot open shared object file: No such file or directory\n"
	h := hosttest.Must(local.Host())(t)
	rules := hosttest.Must(explain.Default())(t)
	for name, program := range map[string]string{"ours": "", "the program's": known} {
		f, err := os.Create(filepath.Join(t.TempDir(), "log"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		m := &session.Machine{Host: h, Shell: &console.Shell{Out: io.Discard, Err: f}}
		l := Listen(m, io.Discard, "prove")
		_, err = io.WriteString(l.Stderr, program)
		l.End(h)
		m.Shell.Alert("Not proven:", "there is no CUDA driver here: %s", known)
		if answer, heard := l.Match(rules); err != nil || !heard || answer.Known() != (program != "") {
			t.Errorf("%s: %v, %v, %v", name, answer.Known(), heard, err)
		}
	}
}
