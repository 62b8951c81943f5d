package cli_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestAnInterruptedScript ends cargo while a build script is at work that takes what it finds for whole, as cudaforge does. The next build
// does not: the package is cleaned, and what the killed cargo had left running writes there no more. A script that failed by itself is no
// reason to clean.
func TestAnInterruptedScript(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	files := kern("app")
	files["sys/build.rs"] = strings.Replace(files["sys/build.rs"], "    assert!(ok);\n", `    assert!(ok);
    let text = std::fs::read_to_string(&out).unwrap();
    assert!(!Path::new("fails").exists(), "as asked");
    if Path::new("slow").exists() {
        std::fs::write("begun", "").unwrap();
        for _ in 0..6000 {
            if !Path::new("slow").exists() { break }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
    std::fs::write(&out, text + "// whole\n").unwrap();
`, 1)
	writeFiles(t, s.dir, files)
	at := func(name string) string { return filepath.Join(s.dir, "sys", name) }
	words := []string{binary(t), "build", "--features", "cuda", "--gpu-toolkit=" + s.a, "--gpu-arch=sm_90"}
	interrupt := func(name string) {
		t.Helper()
		noError(t, os.WriteFile(at("slow"), nil, 0o644))
		c := s.command(nil, words...)
		c.Env = append(c.Env, "GPUBUILD_TEST_MARK="+s.dir)
		var text bytes.Buffer
		c.Stdout, c.Stderr = &text, &text
		c.WaitDelay = time.Second
		noError(t, c.Start())
		done := make(chan struct{})
		go func() { _ = c.Wait(); close(done) }()
		awaitFile(t, at("begun"))
		if name == "" {
			_ = c.Process.Signal(syscall.SIGINT)
		} else if !kill(t, "GPUBUILD_TEST_MARK="+s.dir, name, done) {
			t.Fatalf("no %s was there\n%s", name, text.String())
		}
		<-done
		rest := left(t, "GPUBUILD_TEST_MARK="+s.dir)
		for _, f := range []string{"slow", "begun"} {
			noError(t, os.Remove(at(f)))
		}
		for until := time.Now().Add(time.Minute); name != "" && len(rest) > 0 && time.Now().Before(until); time.Sleep(5 * time.Millisecond) {
			rest = left(t, "GPUBUILD_TEST_MARK="+s.dir) // a script whose cargo was killed comes to its end by itself
		}
		if len(rest) > 0 {
			t.Errorf("%q ended, and this is left running: %q", name, rest)
		}
	}
	whole := func(story, out, said string) {
		t.Helper()
		program, err := exec.Command(filepath.Join(s.dir, "target", "debug", "app")).Output()
		if err != nil || !strings.Contains(string(program), "// whole") {
			t.Errorf("%s: the program holds half: %v %q\n%s", story, err, program, out)
		}
		if !strings.Contains(out, said) {
			t.Errorf("%s: no %q in\n%s", story, said, out)
		}
	}
	for _, victim := range []string{"cargo", ""} { // "": Ctrl-C
		noError(t, os.RemoveAll(filepath.Join(s.dir, "target")))
		interrupt(victim)
		if victim == "" {
			s.must(s.command(nil, append(words[:len(words):len(words)], "--release")...)) // another one that ends well says nothing of it
		}
		whole(victim, s.must(s.command(nil, words...)), "Unknown app-sys: its build script did not come to its end")
		if out := s.must(s.command(nil, words...)); strings.Contains(out, "Compiling") {
			t.Errorf("%q: the next one has something to do\n%s", victim, out)
		}
	}
	noError(t, os.WriteFile(at("fails"), nil, 0o644))
	words[len(words)-1] = "--gpu-arch=sm_80" // else it finds all there
	if out, err := s.command(nil, words...).CombinedOutput(); err == nil {
		t.Fatalf("the script did not fail\n%s", out)
	}
	noError(t, os.Remove(at("fails")))
	if out := s.must(s.command(nil, words...)); strings.Contains(out, "interrupted") {
		t.Errorf("a script that failed by itself\n%s", out)
	}
}
