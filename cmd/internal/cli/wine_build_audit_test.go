package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestWineBuildAudit: `build --gpu-audit` on Windows runs what it built on failing drivers that cl.exe makes, and ends as `audit` does.
func TestWineBuildAudit(t *testing.T) {
	l := newCargoLab(t)
	l.must(os.Remove(filepath.Join(l.work, "matmul", "gpubuild.toml"))) // it has every build proven
	if out, got := l.runs("build", nil, nil); got != 0 {
		t.Fatalf("the build alone ended with %d\n%s", got, out)
	}
	l.plantSDK()
	out, got := l.runs("build", nil, []string{"--gpu-audit=may"})
	if got != 20 || strings.Contains(out, "Compiling") {
		t.Errorf("ended with %d, want 20", got)
	}
	for _, want := range []string{"FAIL no-library:", "silent CPU fallback", `matmul.exe: 1 cubin sm_90`} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q", want)
		}
	}
	if t.Failed() {
		t.Log(out)
	}
}
