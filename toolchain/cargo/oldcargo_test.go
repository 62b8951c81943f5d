package cargo

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gpubuild/buildenv"
	"gpubuild/buildenv/hosttest/need"
)

// oldCargo answers as cargo 1.60 does (seen): it has [unstable] settings, and refuses --config without -Z.
type oldCargo struct{ asked [][]string }

func (o *oldCargo) Run(_ context.Context, c buildenv.Cmd) (buildenv.Result, error) {
	o.asked = append(o.asked, c.Args)
	said := func(code int, out, err string) (buildenv.Result, error) {
		if c.Stderr != nil {
			_, _ = c.Stderr.Write([]byte(err))
		}
		r := buildenv.Result{Code: code, Stdout: []byte(out), Stderr: []byte(err)}
		if code != 0 {
			return r, &buildenv.ExitError{Result: r}
		}
		return r, nil
	}
	switch {
	case slices.Contains(c.Args, "get"):
		return said(0, `{"build-std":["core"]}`, "")
	case slices.Contains(c.Args, "tree") && slices.Contains(c.Args, "--config"):
		return said(
			101,
			"",
			"error: the `--config` flag is unstable, and only available on the nightly channel of Cargo, but this is the `stable` channel\n",
		)
	case slices.Contains(c.Args, "tree") && slices.Contains(c.Args, "nope"):
		return said(101, "", "warning: unused config key `build.build-dir` in `--config cli option`\nerror: no such feature\n")
	case slices.Contains(c.Args, "tree"):
		return said(0, "0app v0.1.0 (/w) cuda\n", "")
	}
	return said(0, "cargo 1.60.0\nrelease: 1.60.0\nhost: x86_64-unknown-linux-gnu\n", "")
}

func TestOldCargoIsAskedWithoutConfig(t *testing.T) {
	p := newProject(
		t,
		"-- Cargo.toml --\n[package]\nname = \"app\"\nversion = \"0.1.0\"\nedition = \"2018\"\n-- src/main.rs --\nfn main() {}\n",
	)
	ask := func(typed string) (GraphAnswer, *oldCargo, error) {
		old := &oldCargo{}
		got, err := Graph(
			context.Background(),
			p.h,
			old,
			p.tool,
			Request{Line: p.line(words(typed)...), Asking: Asking{Private: Private{Root: t.TempDir()}}},
		)
		return got, old, err
	}
	got, old, err := ask("build --features cuda")
	if err != nil || string(got.Tree) != "0app v0.1.0 (/w) cuda\n" || got.Reason == "" {
		t.Errorf("%v %q %q, asked %q", err, got.Tree, got.Reason, old.asked)
	}
	// what the user typed is never left out
	if _, old, err := ask("build --features cuda --config a.toml"); err == nil || !strings.Contains(err.Error(), "--config") {
		t.Errorf("%v, asked %q", err, old.asked)
	}
}

// TestOldCargosTree asks a real one, where rustup has it: both answers, and what it compiles.
func TestOldCargosTree(t *testing.T) {
	const toolchain = "+1.60"
	need.Asked(t, "cargo", "cargo-1.60")
	if exec.Command("cargo", toolchain, "-V").Run() != nil {
		need.Missing(t, "cargo-1.60", "rustup toolchain install 1.60 --profile minimal")
	}
	p := newProject(t, `
-- Cargo.toml --
[package]
name = "app"
version = "0.1.0"
edition = "2018"
[workspace]
members = ["dep", "pm"]
resolver = "2"
[features]
cuda = ["dep/cuda"]
[dependencies]
dep = { path = "dep" }
pm = { path = "pm" }
-- src/main.rs --
fn main() {}
-- dep/Cargo.toml --
[package]
name = "dep"
version = "0.1.0"
edition = "2018"
[features]
cuda = []
host = []
-- dep/src/lib.rs --
-- pm/Cargo.toml --
[package]
name = "pm"
version = "0.1.0"
edition = "2018"
[lib]
proc-macro = true
[dependencies]
dep = { path = "../dep", features = ["host"] }
-- pm/src/lib.rs --
`)
	p.must(toolchain, "generate-lockfile")
	got, err := p.graph(toolchain, "build", "--features", "cuda")
	if err != nil || got.Graph == nil {
		t.Fatalf("%v %q", err, got.Reason)
	}
	if err := os.MkdirAll(filepath.Join(p.dir, ".cargo"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(p.dir, ".cargo", "config.toml"), []byte("[unstable]\nbuild-std = [\"core\"]\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	got, err = p.graph(toolchain, "build", "--features", "cuda")
	if err != nil || !strings.Contains(string(got.Tree), "1dep v0.1.0 ("+filepath.Join(p.dir, "dep")+") cuda\n") || got.Reason == "" {
		t.Fatalf("%v %q %q", err, got.Tree, got.Reason)
	}
	_, err = p.graph(toolchain, "build", "--features", "nope")
	if err == nil || strings.Contains(err.Error(), "build-dir") {
		t.Errorf("our own flag shows: %v", err)
	}
	_, verbose, err := p.cargo(toolchain, "build", "-v", "--features", "cuda")
	if err != nil || !strings.Contains(verbose, "--crate-name dep ") || !strings.Contains(verbose, `--cfg 'feature="cuda"'`) {
		t.Errorf("%v\n%s", err, verbose)
	}
}
