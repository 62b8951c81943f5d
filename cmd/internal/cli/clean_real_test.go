//go:build linux

package cli_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

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
	if out, err := command(nil, "cargo", "build", "--features", "cuda").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	gate := filepath.Join(dir, "gate")
	building := command([]string{"WAIT_FOR=" + gate}, "cargo", "build", "--features", "cuda")
	var built lines
	building.Stdout, building.Stderr = &built, &built
	if err := building.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = building.Process.Kill() }()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(gate + ".began"); err == nil {
			break
		}
	}
	var said lines
	cleaning := command(nil, binary(t), "stale", "--clean", "--features", "cuda", "--toolkit="+toolkit, "--arch=sm_90")
	cleaning.Stdout, cleaning.Stderr = &said, &said
	if err := cleaning.Start(); err != nil {
		t.Fatal(err)
	}
	said.await(t, "another cargo is at work in "+filepath.Join(dir, "target"))
	if outs, _ := filepath.Glob(filepath.Join(dir, "target", "debug", "build", "slow-*", "out")); len(outs) == 0 {
		t.Error("removed under a running cargo")
	}
	if err := os.WriteFile(gate, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := building.Wait(); err != nil {
		t.Errorf("the build that was waited for: %v\n%s", err, &built)
	}
	if err := cleaning.Wait(); err != nil {
		t.Errorf("%v\n%s", err, &said)
	}
	if !strings.Contains(said.String(), "Fresh ") { // what the other cargo built is compared
		t.Errorf("not compared again:\n%s", &said)
	}
}

// TestCacheOutsideTheTarget: candle-flash-attn keeps its objects where CANDLE_FLASH_ATTN_BUILD_DIR says and, like cudaforge, takes them
// again whatever nvcc made them. Cleaning the package alone would give old kernels a new name.
func TestCacheOutsideTheTarget(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	outside := filepath.Join(s.top, "flash")
	if err := os.Mkdir(outside, 0o755); err != nil {
		t.Fatal(err)
	}
	files := kernOf("app", "candle-flash-attn")
	files["Cargo.lock"] = "version = 4\n\n[[package]]\nname = \"app\"\nversion = \"0.1.0\"\ndependencies = [\n \"candle-flash-attn\",\n " +
		"\"plain\",\n]\n\n" +
		"[[package]]\nname = \"candle-flash-attn\"\nversion = \"0.1.0\"\n\n[[package]]\nname = \"plain\"\nversion = \"0.1.0\"\n"
	files["sys/build.rs"] = `use std::{env, path::Path, process::Command};
fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=CUDA_COMPUTE_CAP");
    let cap = env::var("CUDA_COMPUTE_CAP").unwrap_or("75".into());
    let kept = Path::new(&env::var("CANDLE_FLASH_ATTN_BUILD_DIR").unwrap()).join(format!("flash_api-{cap}.o"));
    if !kept.exists() {
        assert!(Command::new("nvcc").arg("-ptx").arg(format!("-arch=sm_{cap}"))
            .arg("-o").arg(&kept).arg("kernel.cu").status().unwrap().success());
    }
    std::fs::copy(&kept, Path::new(&env::var("OUT_DIR").unwrap()).join("k.ptx")).unwrap();
}
`
	writeFiles(t, s.dir, files)
	s.more = []string{"CANDLE_FLASH_ATTN_BUILD_DIR=" + outside}
	program := "app/target/debug/app"
	s.build(s.a, "sm_90")
	s.holds("first", program, first, "sm_90")

	text := s.build(s.a, "sm_80")
	s.holds("another arch, which is part of its key", program, first, "sm_80")
	if !strings.Contains(text, "candle-flash-attn keeps compiled kernels of flash attention in "+outside+" (1 file, ") ||
		!strings.Contains(text, "--gpu-clean-external empties it") {
		t.Errorf("not named:\n%s", text)
	}
	build := []string{binary(t), "build", "--features", "cuda", "--gpu-toolkit=" + s.b, "--gpu-arch", "sm_80"}
	out, err := s.command(nil, build...).CombinedOutput()
	exit, ok := err.(*exec.ExitError)
	if !ok || exit.ExitCode() != 13 || !strings.Contains(string(out), "hint: allow it to be emptied: --gpu-clean-external") {
		t.Errorf("old kernels would have come back (%v):\n%s", err, out)
	}
	if !exists(filepath.Join(outside, "flash_api-90.o")) {
		t.Error("emptied without consent")
	}
	text = s.must(s.command(nil, append(build, "--gpu-clean-external")...))
	s.holds("emptied", program, second, "sm_80")
	if exists(filepath.Join(outside, "flash_api-90.o")) || !strings.Contains(text, "Emptied "+outside) {
		t.Errorf("an old kernel is still there, or it was not said:\n%s", text)
	}
}

// TestRoadCleansWithinBounds: the road's own cleaning stands behind the same guard as the verb's.
func TestRoadCleansWithinBounds(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	s.target = s.dir
	s.build(s.a, "sm_90")
	out, err := s.command(nil, binary(t), "build", "--features", "cuda", "--gpu-toolkit="+s.b, "--gpu-arch", "sm_90").CombinedOutput()
	exit, ok := err.(*exec.ExitError)
	if !ok || exit.ExitCode() != 13 || !strings.Contains(string(out), "error: nothing is removed in cargo's target directory "+s.dir) ||
		!strings.Contains(string(out), "hint: ") {
		t.Errorf("cleaned in a package's own directory (%v):\n%s", err, out)
	}
	s.holds("nothing was removed", "app/debug/app", first, "sm_90")
}
