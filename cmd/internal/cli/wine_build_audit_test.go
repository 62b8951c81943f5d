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
	tests := []struct {
		story, args string
		code        int
		want        []string
	}{
		{"fails honestly", "gpu", 0, []string{"ok no-library:", "ok no-device:", "ok launch-failure:"}},
		{"falls back, silently", "may", 20, []string{"FAIL no-library:", "silent CPU fallback"}},
		{"never asks", "cpu", 21, []string{"not reached all 10 modes: it ended with 0 and never looked for the driver"}},
	}
	for _, tt := range tests {
		t.Run(tt.story, func(t *testing.T) {
			l.t = t
			out, got := l.runs("build", nil, []string{"--gpu-audit=" + tt.args})
			if got != tt.code || strings.Contains(out, "Compiling") {
				t.Errorf("ended with %d, want %d", got, tt.code)
			}
			for _, want := range append(tt.want, `matmul.exe: 1 cubin sm_90`) {
				if !strings.Contains(out, want) {
					t.Errorf("no %q", want)
				}
			}
			if t.Failed() {
				t.Log(out)
			}
		})
	}
}
