package saved_test

import (
	"strings"
	"testing"

	"gpubuild/buildenv"
	"gpubuild/buildenv/hosttest"
	"gpubuild/buildenv/saved"
)

const machine = `os: linux
home: /home/grace.hopper
cwd: /home/grace.hopper/engine
-- @env --
PATH=/home/grace.hopper/cuda/bin:/usr/bin
TOKEN=hunter2
-- @links --
/opt/cuda -> /home/grace.hopper/cuda
-- @empty --
/home/grace.hopper/cuda/bin/nvcc +x
-- /home/grace.hopper/cuda/version.json +chomp --
{"cuda":{"version":"13.4"}}
-- /home/grace.hopper/cuda/odd.txt +crlf --
one
two
-- /home/grace.hopper/cuda/blob +hex --
00 ff 2d 2d
-- /home/grace.hopper/engine/notes --
the plan
-- /home/grace.hopper/cuda/refused +unreadable --
x
`

// TestEncode holds that what was asked comes back as it was, what was private does not, and that the user's name is nowhere.
func TestEncode(t *testing.T) {
	h, err := hosttest.Parse([]byte(machine))
	if err != nil {
		t.Fatal(err)
	}
	rec := saved.NewRecorder(h, func(p string) bool { return h.Below(p, h.Cwd) })
	look := func(h buildenv.Host, root string) string {
		var b strings.Builder
		for _, p := range []string{root + "/bin/nvcc", root + "/version.json", root + "/odd.txt", root + "/blob", root + "/refused", "/opt/cuda/version.json", "/nowhere"} {
			data, err := h.ReadFile(p, 1<<20)
			b.WriteString(string(data))
			if err != nil {
				b.WriteString(" (no)")
			}
			b.WriteString("\n")
		}
		return b.String()
	}
	want := look(rec.Host(), h.Home+"/cuda")
	if _, err := rec.Host().ReadFile(h.Cwd+"/notes", 100); err != nil {
		t.Fatal(err)
	}
	rec.Ran(buildenv.Cmd{Path: "/usr/bin/nvidia-smi", Args: []string{"-L"}}, buildenv.Result{Code: 9, Stdout: []byte("GPU 0: X (UUID: GPU-12345678-9abc-def0-1234-56789abcdef0)")})
	data := rec.Encode("first line\nsecond line", func(name string) bool { return name == "PATH" })
	for _, never := range []string{"grace", "hopper", "hunter2", "TOKEN", "the plan", "notes", "engine", "12345678-9abc"} {
		if strings.Contains(string(data), never) {
			t.Errorf("%q was kept:\n%s", never, data)
		}
	}
	copied, err := hosttest.Parse(data)
	if err != nil {
		t.Fatalf("%v\n%s", err, data)
	}
	if got := look(copied, "/home/u/cuda"); got != want {
		t.Errorf("got %q, want %q from\n%s", got, want, data)
	}
	if got := copied.Env.Get("PATH"); got != "/home/u/cuda/bin:/usr/bin" {
		t.Errorf("PATH is %s", got)
	}
	steps, err := hosttest.Commands(data)
	if err != nil || len(steps) != 1 || steps[0].Result.Code != 9 || !strings.Contains(string(steps[0].Result.Stdout), "GPU-00000000-0000-0000-0000-000000000001") {
		t.Errorf("commands: %v, %v", steps, err)
	}
}
