package tools

import (
	"testing"

	"gpubuild/buildenv/hosttest"
	"gpubuild/cmd/internal/session"
	"gpubuild/features/manifest"
	"gpubuild/toolchain/cargo"
)

// A build script that the catalog knows does not make the libraries unknown in its own repository.
func TestLinkDirsOfKnownScript(t *testing.T) {
	t.Parallel()
	const machine = "os: linux\nhome: /home/u\ncwd: /c\n-- /c/sys/build.rs --\nprintln!(\"cargo:rustc-link-search=native={}\", dir);\n"
	h, err := hosttest.Parse([]byte(machine))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"llama-cpp-sys-2": false, "mine": true} {
		s := &session.Session{Machine: &session.Machine{Host: h},
			Project: &manifest.Project{Members: []*manifest.Package{{Name: name, Dir: "/c/sys"}}}}
		if got := namesLinkDirs(s, cargo.Tool{Env: h.Env, Dir: h.Cwd}); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestNamesLinkDirs holds that a linker whose directories cargo's configuration may name is not judged.
func TestNamesLinkDirs(t *testing.T) {
	for text, want := range map[string]bool{
		"[build]\nrustflags = [\"-L\", \"/mine\"]\n":                                true,
		"[target.x86_64-unknown-linux-gnu]\nrustflags = \"-Clink-arg=-L/mine\"\n":   true,
		"[target.x86_64-unknown-linux-gnu.cuda]\nrustc-link-search = [\"/mine\"]\n": true,
		"[build]\nrustflags = [\"-Ctarget-cpu=native\"]\n":                          false,
		"[net]\noffline = true\n":                                                   false,
	} {
		for _, dir := range []string{"/home/u/app/.cargo", "/home/.cargo", "/home/u/.cargo"} {
			h, err := hosttest.Parse([]byte("os: linux\nhome: /home/u\ncwd: /home/u/app\n-- " + dir + "/config.toml --\n" + text))
			if err != nil {
				t.Fatal(err)
			}
			s, tool := &session.Session{Machine: &session.Machine{Host: h}}, cargo.Tool{Env: h.Env, Dir: h.Cwd}
			if got := namesLinkDirs(s, tool); got != want {
				t.Errorf("%s: %s: got %v", dir, text, got)
			}
			if s.Line.Config = []string{"build.rustflags=['-L/x']"}; !namesLinkDirs(s, tool) {
				t.Error("--config is not looked at")
			}
		}
	}
}
