package toolchain_test

import (
	"context"
	"strings"
	"testing"

	"gpubuild/buildenv"
	"gpubuild/buildenv/hosttest"
	"gpubuild/buildenv/saved"
)

// overheard runs a stored machine's commands and lets a recorder hear them.
type overheard struct {
	*hosttest.Script
	r *saved.Recorder
}

func (o overheard) Run(ctx context.Context, c buildenv.Cmd) (buildenv.Result, error) {
	res, err := o.Script.Run(ctx, c)
	o.r.Ran(c, res)
	return res, err
}

// TestASavedMachineTellsTheSame saves every stored machine while it is looked at, and holds that the copy leads to the same choice for the
// same reasons: what a user sends us is what the user has.
func TestASavedMachineTellsTheSame(t *testing.T) {
	for _, name := range []string{
		"linux-usual", "linux-two-toolkits", "linux-variables-disagree", "linux-removed-toolkit", "linux-container-stubs", "linux-debian",
		"linux-conda", "linux-pip13", "linux-arch",
		"linux-gcc-too-new", "linux-no-cxx", "wsl2-driver-only", "linux-edited-header", "linux-incomplete", "linux-cudnn-two-majors",
		"linux-cudnn-deb", "linux-hpc-sdk", "linux-unreadable",
		"linux-odd-paths", "linux-bare", "linux-two-nvcc", "linux-toolset-and-rocm", "linux-arm64",
		"windows-usual", "windows-toolset-too-new", "windows-five-toolsets", "windows-build-tools-wheels", "windows-no-visual-studio",
		"windows-no-sdk", "windows-conda",
		"windows-edited-header", "windows-no-cxx", "windows-prompt", "windows-prompt-too-new", "windows-arm64", "windows-broken-states",
		"windows-two-nvcc", "windows-cudnn-installer",
	} {
		t.Run(name, func(t *testing.T) {
			h, run := hosttest.LoadCommands(t, name)
			h.Env = h.Env.Set("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI")
			rec := saved.NewRecorder(h, func(string) bool { return false })
			tell := func(h buildenv.Host, run interface {
				Run(context.Context, buildenv.Cmd) (buildenv.Result, error)
			}) string {
				if h.OS == buildenv.Windows {
					f := windows(h)
					return strings.Join(f.MSVC.Problems, "\n") + "\n" + story(h, f, candle)
				}
				return story(h, gather(h, run), candle)
			}
			want := tell(rec.Host(), overheard{run, rec})
			data := rec.Encode("a copy of\n" + name)
			copied, err := hosttest.Parse(data)
			if err != nil {
				t.Fatalf("%v\n%s", err, data)
			}
			steps, err := hosttest.Commands(data)
			if err != nil {
				t.Fatal(err)
			}
			if got := tell(copied, hosttest.NewScript(t, steps...)); got != want {
				t.Errorf("the copy tells\n%s\nthe machine\n%s\nthe copy:\n%s", got, want, data)
			}
			if strings.Contains(string(data), "wJalr") {
				t.Error("a secret was saved")
			}
		})
	}
}
