package doctor

import (
	"context"
	"io"
	"regexp"
	"testing"

	"gpubuild/buildenv"
	"gpubuild/buildenv/hosttest"
	"gpubuild/buildenv/saved"
	"gpubuild/cmd/internal/console"
	"gpubuild/cmd/internal/session"
	"gpubuild/toolchain/cargo"
)

// TestASavedMachineHasTheSameReport asks doctor of stored machines while they are saved, and of the copies: a user's bug report shows here
// what it showed there, word for word.
func TestASavedMachineHasTheSameReport(t *testing.T) {
	for _, name := range []string{
		"linux-usual", "linux-two-toolkits", "linux-variables-disagree", "linux-removed-toolkit", "linux-container-stubs", "linux-debian",
		"linux-conda", "linux-pip12", "linux-pip13",
		"linux-arch", "linux-gcc-too-new", "linux-no-cxx", "wsl2-driver-only", "linux-edited-header", "linux-incomplete",
		"linux-cudnn-two-majors", "linux-cudnn-deb",
		"linux-cudnn-lib-alone", "linux-hpc-sdk", "linux-nix", "linux-spack", "linux-unreadable", "linux-odd-paths", "linux-bare",
		"linux-two-nvcc", "linux-toolset-and-rocm", "linux-arm64",
		"windows-usual", "windows-toolset-too-new", "windows-no-visual-studio", "windows-two-nvcc", "windows-broken-states",
	} {
		for _, prove := range []string{"build", "prove"} {
			t.Run(name+"/"+prove, func(t *testing.T) {
				h, run := hosttest.LoadCommands(t, name)
				report := func(h buildenv.Host, run session.Runner) (string, []Check) {
					m := &session.Machine{Host: h, Runner: run, Shell: &console.Shell{Out: io.Discard, Err: io.Discard},
						CacheDir: h.Join(h.Home, ".cache", "gpubuild")}
					f, err := Gather(context.Background(), m, cargo.Line{}, Options{Prove: prove == "prove"})
					if err != nil {
						t.Fatal(err)
					}
					checks := Run(f)
					return Text(checks), checks
				}
				rec := saved.NewRecorder(h, func(string) bool { return false })
				want, checks := report(rec.Host(), hearing{run, rec, h})
				if len(checks) < 15 {
					t.Fatalf("%d checks only:\n%s", len(checks), want)
				}
				data := rec.Encode(want)
				copied, err := hosttest.Parse(data)
				if err != nil {
					t.Fatalf("%v\n%s", err, data)
				}
				steps, err := hosttest.Commands(data)
				if err != nil {
					t.Fatal(err)
				}
				// no stored machine has two
				want = string(regexp.MustCompile(`GPU-[0-9a-f-]{36}`).ReplaceAll([]byte(want),
					[]byte("GPU-00000000-0000-0000-0000-000000000001")))
				if got, _ := report(copied, hosttest.NewScript(t, steps...)); got != want {
					t.Errorf("the copy's report is\n%s\nthe machine's\n%s\nthe copy:\n%s", got, want, data)
				}
			})
		}
	}
}
