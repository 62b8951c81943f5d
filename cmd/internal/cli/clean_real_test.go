//go:build linux

package cli_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"gpubuild/buildenv/hosttest/need"
)

// slow is a project whose build script holds cargo's build lock until a file appears. It speaks of nvcc, so that it counts as a GPU
// package, and calls none.
var slow = map[string]string{
	"Cargo.toml":  "[package]\nname = \"slow\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[features]\ncuda = []\n[workspace]\n",
	"Cargo.lock":  "version = 4\n\n[[package]]\nname = \"slow\"\nversion = \"0.1.0\"\n",
	"src/main.rs": "fn main() {}\n",
	"build.rs": `fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=WAIT_FOR");
    let _ = "nvcc";
    if let Ok(file) = std::env::var("WAIT_FOR") {
        std::fs::write(format!("{file}.began"), "").unwrap();
        while !std::path::Path::new(&file).exists() { std::thread::sleep(std::time::Duration::from_millis(20)); }
    }
    std::fs::write(std::path::Path::new(&std::env::var("OUT_DIR").unwrap()).join("made"), "").unwrap();
}
`,
}

// TestCleanWaitsForARunningCargo: rust-analyzer, or anyone, builds with plain cargo; nothing goes while it does, and that is said.
func TestCleanWaitsForARunningCargo(t *testing.T) {
	t.Parallel()
	need.Asked(t, "cargo", "cc")
	dir := t.TempDir()
	toolkit := standinToolkit(t, filepath.Join(t.TempDir(), "cuda"), "13.3.33")
	writeFiles(t, dir, slow)
	env := append(os.Environ(), "CARGO_NET_OFFLINE=true", "CARGO_TERM_COLOR=never", "CARGO_TARGET_DIR="+filepath.Join(dir, "target"),
		"GPUBUILD_CACHE="+filepath.Join(dir, "cache"))
	command := func(extra []string, words ...string) *exec.Cmd {
		c := exec.Command(words[0], words[1:]...)
		c.Dir, c.Env = dir, append(append([]string{}, env...), extra...)
		return c
	}
	succeeds(t, command(nil, "cargo", "build", "--features", "cuda"))
	gate := filepath.Join(dir, "gate")
	building := command([]string{"WAIT_FOR=" + gate}, "cargo", "build", "--features", "cuda")
	var built lines
	building.Stdout, building.Stderr = &built, &built
	noError(t, building.Start())
	defer func() { _ = building.Process.Kill() }()
	awaitFile(t, gate+".began")
	var said lines
	cleaning := command(nil, binary(t), "stale", "--clean", "--features", "cuda", "--toolkit="+toolkit, "--arch=sm_90")
	cleaning.Stdout, cleaning.Stderr = &said, &said
	noError(t, cleaning.Start())
	said.await(t, "another cargo is at work in "+filepath.Join(dir, "target"))
	if outs, _ := filepath.Glob(filepath.Join(dir, "target", "debug", "build", "slow-*", "out")); len(outs) == 0 {
		t.Error("removed under a running cargo")
	}
	noError(t, os.WriteFile(gate, nil, 0o644))
	if err := building.Wait(); err != nil {
		t.Errorf("the build that was waited for: %v\n%s", err, &built)
	}
	if err := cleaning.Wait(); err != nil {
		t.Errorf("%v\n%s", err, &said)
	}
}
