//go:build linux

package cli_test

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"strings"
	"testing"
)

// consumed is what a consumer of cargo's messages gets to know.
type consumed struct {
	fresh map[string]bool // of each unit: "PACKAGE KIND"
	after string          // what follows build-finished and is not ours
}

// oneBuild holds a stream to be that of one build: each unit and each script once, build-finished once and as cargo's last line.
func oneBuild(t *testing.T, out []byte, success bool) consumed {
	t.Helper()
	l := consumed{fresh: map[string]bool{}}
	seen, finished := map[string]bool{}, 0
	for _, line := range bytes.SplitAfter(out, []byte("\n")) {
		var m struct {
			Reason    string
			PackageID string `json:"package_id"`
			OutDir    string `json:"out_dir"`
			Target    struct {
				Name string
				Kind []string
			}
			Filenames []string
			Fresh     bool
			Success   bool
		}
		if json.Unmarshal(line, &m) != nil || m.Reason == "" {
			if finished > 0 {
				l.after += string(line)
			}
			continue
		}
		if finished > 0 {
			t.Errorf("after build-finished: %s", line)
		}
		switch m.Reason {
		case "build-finished":
			if finished++; m.Success != success {
				t.Errorf("success is %v, want %v", m.Success, success)
			}
		case "compiler-artifact", "build-script-executed":
			key := m.Reason + m.PackageID + m.OutDir + strings.Join(m.Filenames, " ")
			if seen[key] {
				t.Errorf("told of twice: %s", line)
			}
			seen[key] = true
			if m.Reason == "compiler-artifact" {
				l.fresh[m.Target.Name+" "+m.Target.Kind[0]] = m.Fresh
			}
		}
	}
	if finished != 1 || len(seen) == 0 {
		t.Errorf("%d times build-finished, %d units:\n%s", finished, len(seen), out)
	}
	return l
}

// TestMessagesOfOneBuild: cargo is run twice to build and once more to start the program, and its messages are those of one build.
func TestMessagesOfOneBuild(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	run := func(story string, code int, success bool, words ...string) (consumed, string) {
		t.Helper()
		s.t = t
		c := s.command(nil, append([]string{binary(t)}, words...)...)
		var errs bytes.Buffer
		c.Stderr = &errs
		out, err := c.Output()
		if c.ProcessState.ExitCode() != code {
			t.Fatalf("%s: %v\n%s", story, err, &errs)
		}
		return oneBuild(t, out, success), errs.String()
	}
	s.build(s.a, "sm_90")
	// Plain cargo for other RUSTFLAGS makes an OUT_DIR that is compared with nothing before cargo takes it.
	s.more = []string{"RUSTFLAGS=--cfg other", "CUDA_COMPUTE_CAP=90"}
	s.plain(s.b)
	build := []string{"build", "--features", "cuda", "--gpu-toolkit=" + s.a, "--message-format=json"}
	l, said := run("built twice", 0, true, build...)
	if !strings.Contains(said, "Cleaned app-sys") || l.fresh["app_sys lib"] || l.fresh["app bin"] || !l.fresh["plain lib"] {
		t.Errorf("%v\n%s", l.fresh, said)
	}
	s.holds("built twice", "app/target/debug/app", first, "sm_90")

	out, err := exec.Command(s.dir + "/target/debug/app").Output()
	if err != nil {
		t.Fatal(err)
	}
	build[0] = "run"
	// our own line behind it begins a new one
	if l, said = run("run", 0, true, build...); strings.TrimRight(l.after, "\n") != strings.TrimRight(string(out), "\n") {
		t.Errorf("the program said %q, and this came through: %q\n%s", out, l.after, said)
	}

	s.more = []string{"RUSTFLAGS=--cfg another", "CUDA_COMPUTE_CAP=90"}
	s.plain(s.b)
	build[0] = "build"
	if _, said = run("it may not be cleaned", 13, false, append(build, "--gpu-no-clean")...); !strings.Contains(said, "forbids to clean") {
		t.Error(said)
	}
}
