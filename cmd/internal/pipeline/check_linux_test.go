package pipeline

import (
	"path/filepath"
	"strings"
	"testing"

	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/hosttest"
	"gpubuild/cmd/internal/reach"
	"gpubuild/cmd/internal/session"
	"gpubuild/cmd/internal/tools"
	"gpubuild/features"
	"gpubuild/gpu"
	"gpubuild/toolchain/cargo"
)

// TestCheckWithoutToolkit: a type check does without a toolkit where none fits or none is wanted, and nothing else does.
func TestCheckWithoutToolkit(t *testing.T) {
	t.Parallel()
	b := newBench(t, map[string]string{"w/Cargo.toml": plain, "w/src/lib.rs": ""})
	none := features.Reach{Needs: features.Needs{CUDA: true, NVCC: true, CUDALibs: true}, Pin: gpu.Version{Major: 99}} // which no toolkit serves
	for _, tt := range []struct {
		words   string
		o       tools.Options
		reach   features.Reach
		standIn bool
		code    int
	}{
		{"check", tools.Options{Toolkit: tools.None}, none, true, 0}, {"doc", tools.Options{Toolkit: tools.None}, none, true, 0},
		{"build", tools.Options{Toolkit: tools.None}, none, false, exit.Usage},
		{"clippy", tools.Options{}, none, true, 0}, {"rustdoc", tools.Options{}, none, true, 0}, {"fix", tools.Options{}, none, true, 0},
		{"build", tools.Options{}, none, false, exit.Missing}, {"check", tools.Options{Toolkit: "99.0"}, none, false, exit.Missing},
		{"check", tools.Options{CCBin: "g++-none"}, none, false, exit.Usage},
		{"check", tools.Options{}, features.Reach{Needs: features.Needs{CUDA: true}}, false, 0}, {"build", tools.Options{}, features.Reach{Needs: features.Needs{CUDA: true}}, false, 0},
	} {
		b.said.Reset()
		c := b.command(tt.words)
		c.Options.Tools = tt.o
		s := hosttest.Must(session.Open(b.m, c.Line))(t)
		target := filepath.Join(b.top, "w", "target")
		got, err := c.choose(t.Context(), s, reach.Judged{Session: s, Tool: c.Tool, Reach: &tt.reach, Graph: session.Graph{Places: cargo.Places{TargetDirectory: target}}})
		code := exit.Of(err)
		if tt.code == exit.Missing && code == exit.Misfit {
			code = exit.Missing // a toolkit is here
		}
		if got.standIn != tt.standIn || code != tt.code || tt.standIn && (got.Env.Get("CUDA_LIBRARY_PATH") == "" || !strings.Contains(b.said.String(), "a stand-in of release 99.0")) {
			t.Errorf("%s with %+v: stand-in %v, %v: %s", tt.words, tt.o, got.standIn, err, b.said.String())
		}
	}
}

// TestToolsForAnyProgram: a program behind `exec` gets what any CUDA crate needs, and what the project's build needs.
func TestToolsForAnyProgram(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		story, words string
		files        map[string]string
		want         string // of the error: that of a flag shows that tools were chosen
		asked        bool   // cargo
	}{
		{"no project", "build", nil, "it is not on PATH", false},
		{"no project, and a selection", "build -p app", nil, "Cargo.toml", false},
		{"a configuration that is wrong", "build", map[string]string{"w/Cargo.toml": plain, "w/gpubuild.toml": "strict = 1\n"}, "gpubuild.toml:1", false},
		{"a project without a GPU", "build", map[string]string{"w/Cargo.toml": plain, "w/src/lib.rs": ""}, "it is not on PATH", false},
		{"one with a GPU that cargo refuses", "build --features cuda", map[string]string{"w/Cargo.toml": gpus, "w/src/lib.rs": ""}, "cargo", true},
	} {
		b := newBench(t, tt.files)
		b.write("w/x", "")
		b.code = 101
		line := b.command(tt.words).Line
		_, err := AnyTools(t.Context(), b.m, tools.Options{CCBin: "g++-none"}, line)
		if err == nil || !strings.Contains(err.Error(), tt.want) || tt.want == "cargo" && strings.Contains(err.Error(), "PATH") || len(b.ran) > 0 != tt.asked {
			t.Errorf("%s: %v, asked %q", tt.story, err, b.ran)
		}
	}
}
