package cli_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"
)

// TestWineRebuildsARunningProgram: Windows does not replace the file of a running program. gpubuild names the process, and its hint ends
// it.
func TestWineRebuildsARunningProgram(t *testing.T) {
	w := newWine(t)
	w.cargo()
	w.plant(map[string]string{"14.44.35207": "12.4"})
	if text, err := exec.Command("x86_64-w64-mingw32-gcc", "-std=gnu11", "-DROOM", "-static", "-O1", "-o", filepath.Join(w.bin, "answers",
		"program.exe"), filepath.Join("..", "..", "..", "gpu", "verify", "testdata", "program_windows.c")).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	env := []string{"WINEPATH=" + z(filepath.Join(w.bin, "rust")), "STANDIN_CARGO=" + z(filepath.Join(w.bin, "answers"))}
	build := func() (string, int) {
		out, err := w.run(env, z(w.gpubuild), "build", "--manifest-path", z(filepath.Join(w.work, "matmul", "Cargo.toml")), "--features",
			"cuda", "--gpu-toolkit="+z(filepath.Join(w.dir, "toolkit")), "--gpu-arch=90")
		return out, code(err)
	}
	if out, got := build(); got != 0 {
		t.Fatalf("built with %d\n%s", got, out)
	}
	program := exec.Command("wine", z(filepath.Join(w.work, "matmul", "target", "debug", "matmul.exe")), "waits")
	program.Env, program.Dir = w.env(), w.work
	stdin, err := program.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	said, err := program.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(said).ReadString('\n'); strings.TrimSpace(line) != "waits" {
		t.Fatalf("the program says %q, %v", line, err)
	}
	out, got := build()
	t.Log(out)
	if got != 101 || !strings.Contains(out, `matmul.exe is still running`) || !strings.Contains(out, "hint: End the program") {
		t.Fatalf("while it runs: %d\n%s", got, out)
	}
	if err := stdin.Close(); err != nil { // it waits for the end of its input
		t.Fatal(err)
	}
	_ = program.Wait() // the status of a program that was ended
	if out, got := build(); got != 0 {
		t.Errorf("after its end: %d\n%s", got, out)
	}
}

// TestWineLongPath builds into a target directory with spaces whose files have paths of more than 260 characters. The package itself cannot
// lie so deep: Windows starts no process, and so no build script, in such a directory.
func TestWineLongPath(t *testing.T) {
	w := newWine(t)
	w.cargo()
	w.plant(map[string]string{"14.44.35207": "12.4"})
	target := filepath.Join(w.work, strings.Repeat("a long name ", 15)+"é", strings.Repeat("and another ", 10)+"one")
	answer := filepath.Join(w.bin, "answers", "metadata.json")
	said, err := os.ReadFile(answer)
	if err != nil {
		t.Fatal(err)
	}
	place := fmt.Sprintf(`"target_directory":%q`, z(target))
	moved := regexp.MustCompile(`"target_directory":"[^"]*"`).ReplaceAllLiteral(said, []byte(place))
	if err := os.WriteFile(answer, moved, 0o644); err != nil {
		t.Fatal(err)
	}
	for range 2 { // in an empty directory, then in what is there
		out, err := w.run([]string{"WINEPATH=" + z(filepath.Join(w.bin, "rust")), "STANDIN_CARGO=" + z(filepath.Join(w.bin, "answers")),
			"CARGO_TARGET_DIR=" + z(target)}, z(w.gpubuild), "build", "--manifest-path", z(filepath.Join(w.work, "matmul", "Cargo.toml")),
			"--features", "cuda", "--gpu-toolkit="+z(filepath.Join(w.dir, "toolkit")), "--gpu-arch=90")
		if err != nil || !strings.Contains(out, "Finished") || !strings.Contains(out, "1 cubin sm_90 (nvcc 13.4.92)") {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	if program := z(filepath.Join(target, "debug", "matmul.exe")); len(program) <= 260 {
		t.Errorf("%d characters are not long", len(program))
	}
}

// TestWineCtrlC: an interrupt of a console, which goes to gpubuild and to the program that it runs, ends both, and gpubuild with 130.
func TestWineCtrlC(t *testing.T) {
	w := newWine(t)
	program := filepath.Join(w.bin, "program.exe")
	if text, err := exec.Command("x86_64-w64-mingw32-gcc", "-std=gnu11", "-static", "-O1", "-o", program, filepath.Join("..", "..", "..",
		"gpu", "verify", "testdata", "program_windows.c")).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	w.plant(map[string]string{"14.44.35207": "12.4"})
	ctx, cancel := context.WithTimeout(context.Background(), 6*time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, "wine", z(w.gpubuild), "exec", "--toolkit="+z(filepath.Join(w.dir, "toolkit")), "--", z(program),
		"ctrl-c")
	c.Env, c.Dir = w.env(), w.work
	console, err := pty.Start(c) // Wine makes a console of a terminal, and of nothing else
	if err != nil {
		t.Fatal(err)
	}
	defer console.Close()
	go func() { _, _ = io.Copy(io.Discard, console) }() // Wine draws letter by letter
	if got := code(c.Wait()); got != 130 {
		t.Errorf("ended with %d", got)
	}
}
