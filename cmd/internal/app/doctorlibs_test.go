package app

import (
	"slices"
	"testing"

	"gpubuild/buildenv/hosttest"
	"gpubuild/cmd/internal/session"
	"gpubuild/toolchain/cargo"
)

func TestOtherMajors(t *testing.T) {
	for _, tt := range []struct {
		name    string
		has     []string
		without []string
	}{
		{"libcublas.so.13", []string{"libcublas.so.12", "libcublas.so.11"}, []string{"libcublas.so.13", "libcublas.so.120"}},
		{"cublas64_13.dll", []string{"cublas64_12.dll", "cublas64_11.dll"}, []string{"cublas64_13.dll", "cublas64_130.dll"}},
		{"cudart64_12.dll", []string{"cudart64_13.dll", "cudart64_110.dll"}, []string{"cudart64_120.dll"}},
		{"nvrtc64_130_0.dll", []string{"nvrtc64_120_0.dll", "nvrtc64_112_0.dll"}, []string{"nvrtc64_130_0.dll", "nvrtc64_13_0.dll"}},
		{"cudnn64_9.dll", []string{"cudnn64_8.dll"}, []string{"cudnn64_9.dll"}},
	} {
		got := otherMajors(tt.name)
		for _, want := range tt.has {
			if !slices.Contains(got, want) {
				t.Errorf("%s: no %s in %v", tt.name, want, got)
			}
		}
		for _, not := range tt.without {
			if slices.Contains(got, not) {
				t.Errorf("%s: %s is no other major", tt.name, not)
			}
		}
	}
	if got := otherMajors("kernel32.dll"); got != nil {
		t.Errorf("a name without a number: %v", got)
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
			j := &journey{app: &app{Machine: &session.Machine{Host: h}}, Tool: cargo.Tool{Env: h.Env, Dir: h.Cwd}}
			if got := j.namesLinkDirs(); got != want {
				t.Errorf("%s: %s: got %v", dir, text, got)
			}
			if j.Line.Config = []string{"build.rustflags=['-L/x']"}; !j.namesLinkDirs() {
				t.Error("--config is not looked at")
			}
		}
	}
}
