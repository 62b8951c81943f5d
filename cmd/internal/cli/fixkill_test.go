//go:build linux

package cli_test

import (
	"bytes"
	"fmt"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"gpubuild/buildenv/hosttest/need"
)

// fixable is a chain of members none of which passes cuda on: one fix writes into each of them.
type fixable struct {
	dir   string
	paths []string
	old   map[string]string
}

func newFixable(t *testing.T, members int) *fixable {
	t.Helper()
	m := &fixable{dir: t.TempDir(), old: map[string]string{}}
	list := ""
	for i := 0; i < members; i++ {
		list += fmt.Sprintf("%q, ", fmt.Sprintf("m%d", i))
		dep := "candle-core = { path = \"../candle-core\" }"
		if i > 0 {
			dep = fmt.Sprintf("m%d = { path = \"../m%d\" }", i-1, i-1)
		}
		m.old[fmt.Sprintf("m%d/Cargo.toml", i)] = fmt.Sprintf("[package]\nname = \"m%d\"\nversion = \"0.1.0\"\nedition = \"2021\"\n\n"+
			"[features]\n# passes it on\ncuda = []\n\n[dependencies]\n%s\n", i, dep)
	}
	writeFiles(t, m.dir, map[string]string{
		"Cargo.toml":             "[workspace]\nmembers = [" + list + "]\nexclude = [\"candle-core\"]\nresolver = \"2\"\n",
		"candle-core/Cargo.toml": "[package]\nname = \"candle-core\"\nversion = \"0.11.1\"\nedition = \"2021\"\n[features]\ncuda = []\n",
		"candle-core/src/lib.rs": "",
	})
	writeFiles(t, m.dir, m.old)
	for path := range m.old {
		m.paths = append(m.paths, path)
		m.write(t, filepath.Join(filepath.Dir(path), "src", "lib.rs"), "")
	}
	m.write(t, fmt.Sprintf("m%d/src/main.rs", members-1), "fn main() {}\n")
	c := exec.Command("cargo", "generate-lockfile", "--offline", "-q")
	c.Dir = m.dir
	succeeds(t, c)
	return m
}

func (m *fixable) write(t *testing.T, path, text string) {
	writeFiles(t, m.dir, map[string]string{path: text})
}

func (m *fixable) read(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, p := range m.paths {
		data, err := os.ReadFile(filepath.Join(m.dir, p))
		noError(t, err)
		out[p] = string(data)
	}
	return out
}

// fix is a gpubuild that fixes the workspace, in a process group of its own, not started yet.
func (m *fixable) fix(t *testing.T, cache string) *exec.Cmd {
	c := exec.Command(binary(t), "features", "--fix", "--features", "cuda", "-p", fmt.Sprintf("m%d", len(m.paths)-1))
	c.Dir = m.dir
	c.Env = append(os.Environ(), "GPUBUILD_CACHE="+cache, "CARGO_NET_OFFLINE=true")
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return c
}

// TestFixKilled: a gpubuild that is killed at any moment leaves every manifest whole, as it was or as it will be, and the next one
// completes and clears away what it left. GPUBUILD_TEST=kill=N says how often.
func TestFixKilled(t *testing.T) {
	t.Parallel()
	need.Asked(t, "cargo")
	m, cache := newFixable(t, 12), t.TempDir()
	began := time.Now()
	succeeds(t, m.fix(t, cache))
	whole := time.Since(began)
	now := m.read(t)
	changed := 0
	for _, p := range m.paths {
		if now[p] != m.old[p] {
			changed++
		}
	}
	if changed != len(m.paths) {
		t.Fatalf("only %d of %d manifests were fixed", changed, len(m.paths))
	}
	r := rand.New(rand.NewSource(1))
	half := 0
	for n := 0; n < need.Count(t, "kill", 10); n++ {
		writeFiles(t, m.dir, m.old)
		c := m.fix(t, cache)
		noError(t, c.Start())
		if n%2 == 0 { // anywhere
			time.Sleep(time.Duration(r.Int63n(int64(whole))))
		} else { // between the first file and the last
			first := filepath.Join(m.dir, "m0", "Cargo.toml")
			for end := time.Now().Add(20 * whole); time.Now().Before(end); {
				if data, err := os.ReadFile(first); err != nil || string(data) != m.old["m0/Cargo.toml"] {
					break
				}
				time.Sleep(20 * time.Microsecond)
			}
			time.Sleep(time.Duration(r.Int63n(int64(2 * time.Millisecond))))
		}
		_ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL)
		_ = c.Wait()
		some := 0
		for p, text := range m.read(t) {
			switch text {
			case m.old[p]:
			case now[p]:
				some++
			default:
				t.Errorf("kill %d: %s is neither the old nor the new one:\n%s", n, p, text)
			}
		}
		if some > 0 && some < len(m.paths) {
			half++
		}
	}
	if half == 0 {
		t.Error("no kill came between two files: the test proves less than it should")
	}
	t.Logf("%d of %d kills came between two files", half, need.Count(t, "kill", 10))
	succeeds(t, m.fix(t, cache))
	for p, text := range m.read(t) {
		if text != now[p] {
			t.Errorf("after the next run %s is\n%s", p, text)
		}
		entries, err := os.ReadDir(filepath.Join(m.dir, filepath.Dir(p)))
		noError(t, err)
		for _, e := range entries {
			if strings.HasPrefix(e.Name(), ".Cargo.toml") {
				t.Errorf("%s is left beside %s", e.Name(), p)
			}
		}
	}
}

// TestTwoFixAtOnce: both end well, and each edge is there once.
func TestTwoFixAtOnce(t *testing.T) {
	t.Parallel()
	need.Asked(t, "cargo")
	m, cache := newFixable(t, 6), t.TempDir()
	var both []*exec.Cmd
	var said [2]bytes.Buffer
	for i := range said {
		c := m.fix(t, cache)
		c.Stderr = &said[i]
		noError(t, c.Start())
		both = append(both, c)
	}
	for i, c := range both {
		if err := c.Wait(); err != nil {
			t.Errorf("%v: %s", err, said[i].String())
		}
	}
	for p, text := range m.read(t) {
		if strings.Count(text, "/cuda\"") != 1 {
			t.Errorf("%s:\n%s", p, text)
		}
	}
	all := said[0].String() + said[1].String()
	if strings.Count(all, "Updated m0/Cargo.toml") != 1 {
		t.Errorf("both fixed:\n%s", all)
	}
}
