package ci_test

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gpubuild/cmd/internal/ci"
)

func spec() ci.Spec {
	return ci.Spec{
		Axes: ci.Axes{Features: []string{"cuda", "cuda,cudnn"}, CUDA: []string{"13.3", "13.4"}, CUDNN: []string{"auto"}, Arch: []string{"sm_80", "sm_90"},
			Platform: []string{"linux-x86_64"}, Profile: []string{"dev"}},
		Toolkit: ci.Fetch, Runners: map[string][]string{"linux-x86_64": {"ubuntu-24.04"}}, Lock: "0123456789ab",
		Places: []ci.Place{{Axes: ci.Axes{Arch: []string{"sm_80"}, Features: []string{"cuda"}}, Name: "a100", Runner: []string{"self-hosted", "gpu"}, Driver: "580.65.06"}},
	}
}

func all(*ci.Row) (string, error) { return "", nil }

func expand(t *testing.T, s ci.Spec, judge func(*ci.Row) (string, error)) ci.Matrix {
	t.Helper()
	m, err := ci.Expand(s, judge)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func ids(rows []ci.Row) (out []string) {
	for _, r := range rows {
		out = append(out, r.ID)
	}
	return out
}

// TestRowNames are part of cache keys, paths and people's notes: they change only on purpose.
func TestRowNames(t *testing.T) {
	got := strings.Join(ids(expand(t, spec(), all).Rows), "\n")
	want := `cuda-cuda13.3-sm_80-linux-x86_64-dev
prove-a100-cuda-cuda13.3-sm_80-linux-x86_64-dev
cuda-cuda13.3-sm_90-linux-x86_64-dev
cuda-cuda13.4-sm_80-linux-x86_64-dev
prove-a100-cuda-cuda13.4-sm_80-linux-x86_64-dev
cuda-cuda13.4-sm_90-linux-x86_64-dev
cuda+cudnn-cuda13.3-sm_80-linux-x86_64-dev
cuda+cudnn-cuda13.3-sm_90-linux-x86_64-dev
cuda+cudnn-cuda13.4-sm_80-linux-x86_64-dev
cuda+cudnn-cuda13.4-sm_90-linux-x86_64-dev`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestRowsKeepTheirNameWhenOthersCome(t *testing.T) {
	before := ids(expand(t, spec(), all).Rows)
	s := spec()
	s.CUDA = []string{"13.0", "13.3", "13.4"}
	s.Arch = []string{"sm_120", "sm_90", "sm_80"}
	s.Includes = []ci.Axes{{Profile: []string{"release"}}}
	after := ids(expand(t, s, all).Rows)
	for _, id := range before {
		if !slices.Contains(after, id) {
			t.Errorf("%s is gone", id)
		}
	}
}

// TestNamesDiffer: values that a name cannot hold as they are must still give different names, and names that are safe anywhere.
func TestNamesDiffer(t *testing.T) {
	s := spec()
	s.Places = nil
	s.CUDA, s.Arch = []string{"13.4"}, []string{"sm_90"}
	s.Features = []string{"", "a b", "a-b", "a,b", "A,B", "a\"b", "a'b", "$(id)", "${{ github.token }}", "a/b", "ä", "a\u2028b", "cuda-cuda13.4", strings.Repeat("x", 300), strings.Repeat("x", 299)}
	s.Profile = []string{"dev", "release", "dev release", "Dev"}
	m := expand(t, s, all)
	seen := map[string]bool{}
	for _, r := range m.Rows {
		if seen[r.ID] {
			t.Errorf("two rows are called %s", r.ID)
		}
		seen[r.ID] = true
		if len(r.ID) > 120 || strings.Trim(r.ID, "abcdefghijklmnopqrstuvwxyz0123456789+-_.") != "" {
			t.Errorf("not safe everywhere: %q", r.ID)
		}
	}
	if len(m.Rows) != len(s.Features)*len(s.Profile) {
		t.Errorf("got %d rows, want %d", len(m.Rows), len(s.Features)*len(s.Profile))
	}
}

func TestCacheKeyHoldsWhatDecides(t *testing.T) {
	base := expand(t, spec(), all).Rows[1]
	if want := "gpubuild1-linux-x86_64-cuda13.3-sm_80-r580-0123456789ab-"; base.Kind != ci.Proof || !strings.HasPrefix(base.CacheKey, want) {
		t.Errorf("got %s %s, want %s…", base.Kind, base.CacheKey, want)
	}
	for name, change := range map[string]func(*ci.Spec){
		"toolkit":       func(s *ci.Spec) { s.CUDA = []string{"13.4"} },
		"arch":          func(s *ci.Spec) { s.Arch = []string{"sm_90"}; s.Places[0].Arch = nil },
		"driver family": func(s *ci.Spec) { s.Places[0].Driver = "590.44.01" },
		"lock":          func(s *ci.Spec) { s.Lock = "ba9876543210" },
		"features":      func(s *ci.Spec) { s.Features = []string{"cuda,x"}; s.Places[0].Features = nil },
		"profile":       func(s *ci.Spec) { s.Profile = []string{"release"} },
		"source":        func(s *ci.Spec) { s.Places[0].Toolkit = ci.Runner },
	} {
		s := spec()
		change(&s)
		if got := expand(t, s, all).Rows[1]; got.Kind != ci.Proof || got.CacheKey == base.CacheKey {
			t.Errorf("%s: another %s has the same cache: %s", name, name, got.CacheKey)
		}
	}
	s := spec()
	s.Places[0].Driver = "580.99"
	if got := expand(t, s, all).Rows[1]; got.CacheKey != base.CacheKey {
		t.Errorf("another driver of the same family has another cache: %s", got.CacheKey)
	}
}

func TestExcludesAndIncludes(t *testing.T) {
	s := spec()
	s.Excludes = []ci.Axes{{CUDA: []string{"13.3"}, Features: []string{"cuda,cudnn"}}, {Arch: []string{"sm_90"}}}
	s.Includes = []ci.Axes{{Features: []string{"cuda"}, CUDA: []string{"13.4"}, Arch: []string{"sm_120"}}, {Features: []string{"cuda"}, CUDA: []string{"13.4"}, Arch: []string{"sm_80"}}}
	m := expand(t, s, all)
	want := "cuda-cuda13.3-sm_80-linux-x86_64-dev prove-a100-cuda-cuda13.3-sm_80-linux-x86_64-dev cuda-cuda13.4-sm_80-linux-x86_64-dev " +
		"prove-a100-cuda-cuda13.4-sm_80-linux-x86_64-dev cuda+cudnn-cuda13.4-sm_80-linux-x86_64-dev cuda-cuda13.4-sm_120-linux-x86_64-dev"
	if got := strings.Join(ids(m.Rows), " "); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if len(m.LeftOut) != 5 {
		t.Errorf("%d are left out: %+v", len(m.LeftOut), m.LeftOut)
	}
}

func TestLimits(t *testing.T) {
	grow := func(n int) ci.Spec {
		s := spec()
		s.Places, s.Features, s.CUDA = nil, []string{"cuda"}, []string{"13.4"}
		s.Arch = nil
		for i := range n {
			s.Arch = append(s.Arch, fmt.Sprint("sm_", i))
		}
		return s
	}
	var tooMany *ci.TooManyError
	if _, err := ci.GitHub.Rows(expand(t, grow(256), all), ci.Workflow{}); err != nil {
		t.Error(err)
	}
	if _, err := ci.GitHub.Rows(expand(t, grow(257), all), ci.Workflow{}); !errors.As(err, &tooMany) || tooMany.Have != 257 || tooMany.Limit != 256 {
		t.Errorf("GitHub: got %v", err)
	}
	if _, err := ci.GitLab.Rows(expand(t, grow(200), all), ci.Workflow{}); err != nil {
		t.Error(err)
	}
	if _, err := ci.GitLab.Rows(expand(t, grow(201), all), ci.Workflow{}); !errors.As(err, &tooMany) || tooMany.Limit != 200 || tooMany.Hint() == "" {
		t.Errorf("GitLab: got %v", err)
	}
	s := grow(3000)
	s.CUDA = grow(3000).Arch
	s.Features = grow(3000).Arch // 2.7e10 rows: it must be refused before any is made
	if _, err := ci.Expand(s, all); !errors.As(err, &tooMany) {
		t.Errorf("got %v", err)
	}
}

func TestAPlaceThatNothingIsProvenOnIsRefused(t *testing.T) {
	m := expand(t, spec(), func(r *ci.Row) (string, error) {
		if r.Kind == ci.Proof {
			return "no GPU there", nil
		}
		return "", nil
	})
	var none *ci.NoRowsError
	if err := m.Refuse(); !errors.As(err, &none) || !strings.Contains(err.Error(), "nothing can be proven on a100") || !strings.Contains(err.Error(), "no GPU there") {
		t.Errorf("got %v", err)
	}
	if err := expand(t, spec(), all).Refuse(); err != nil {
		t.Error(err)
	}
	empty := expand(t, spec(), func(*ci.Row) (string, error) { return "never", nil })
	if err := empty.Refuse(); !errors.As(err, &none) {
		t.Errorf("an empty matrix: got %v", err)
	}
}

// TestGitLabTakesNoWindowsRows: its runners there read scripts by PowerShell, and ours would be read as something else.
func TestGitLabTakesNoWindowsRows(t *testing.T) {
	s := spec()
	s.Platform, s.Runners = []string{"windows-x86_64"}, map[string][]string{"windows-x86_64": {"win"}}
	var shell *ci.ShellError
	if _, err := ci.GitLab.Rows(expand(t, s, all), ci.Workflow{}); !errors.As(err, &shell) || shell.Hint() == "" {
		t.Errorf("got %v", err)
	}
}

// TestGitHubsLabelIsNoTag: a job of GitLab with the tag ubuntu-24.04 would wait for a runner for ever; a label of the user's own is one.
func TestGitHubsLabelIsNoTag(t *testing.T) {
	text, err := ci.GitLab.Rows(expand(t, spec(), all), ci.Workflow{})
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), "ubuntu-24.04") || !strings.Contains(string(text), `tags: ["self-hosted", "gpu"]`) {
		t.Errorf("got\n%s", text)
	}
}

func TestStepsByValue(t *testing.T) {
	r := ci.Row{ID: "r", Kind: ci.Proof, Features: "cuda,cudnn", CUDA: "13.4", Arch: "sm_90", Profile: "release", Toolkit: ci.Fetch, Parts: []string{"cudnn"},
		Wrapper: []string{"srun", "--gres=gpu:1"}, Args: []string{"--device", "it's"}, CargoArgs: []string{"-p", "app"}}
	var got []string
	for _, s := range ci.Steps(r) {
		got = append(got, s.Name+": "+s.Script())
	}
	want := []string{
		`toolkit: gpubuild toolchain install 13.4 --parts=cudnn`,
		`build: mkdir -p target/gpubuild-ci/results/r && CARGO_TARGET_DIR=target/gpubuild-ci/r GPUBUILD_ROW=r gpubuild build --gpu-junit=target/gpubuild-ci/results/r/build.xml --gpu-receipt=target/gpubuild-ci/results/r/build.json --features=cuda,cudnn --release --gpu-toolkit=13.4 --gpu-arch=sm_90 -p app`,
		`prove: mkdir -p target/gpubuild-ci/results/r && CARGO_TARGET_DIR=target/gpubuild-ci/r GPUBUILD_ROW=r srun --gres=gpu:1 gpubuild build --gpu-junit=target/gpubuild-ci/results/r/prove.xml --gpu-receipt=target/gpubuild-ci/results/r/prove.json '--gpu-prove=--device '\''it'\''\'\'''\''s'\''' --gpu-require-proof --features=cuda,cudnn --release --gpu-toolkit=13.4 --gpu-arch=sm_90 -p app`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	r.Kind, r.Toolkit = ci.Compile, ci.None
	if steps := ci.Steps(r); len(steps) != 1 || strings.Contains(steps[0].Script(), "toolkit=") {
		t.Errorf("a compile row of driver-only crates: %+v", steps)
	}
}

func TestKnownMachines(t *testing.T) {
	m, err := ci.KnownMachines()
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		row  ci.Row
		want string
	}{
		{ci.Row{Runner: []string{"ubuntu-22.04"}}, "gcc 10 gcc 11 gcc 12"},
		{ci.Row{Runner: []string{"self-hosted", "ubuntu-22.04"}}, ""},
		{ci.Row{Runner: []string{"mine"}}, "gcc 15"},
		{ci.Row{Runner: []string{"ubuntu-22.04"}, Container: "nvidia/cuda:12.8.1-devel-ubuntu24.04"}, "gcc 13"},
		{ci.Row{Runner: []string{"ubuntu-22.04"}, Container: "example.org/own:1"}, ""},
	}
	for _, tt := range tests {
		if got := strings.Join(m.Compilers(tt.row, map[string][]string{"mine": {"gcc 15"}}), " "); got != tt.want {
			t.Errorf("%v %s: got %q, want %q", tt.row.Runner, tt.row.Container, got, tt.want)
		}
	}
}

func TestEstimate(t *testing.T) {
	// candle's debug build with two threads for its kernels: 61 s and 419 s / 2 (measured), within a third.
	e := ci.Load{Units: 250, KernelSeconds: 419, KernelsKnown: true, CPUs: 2}.Rate()
	if e.Seconds < 200 || e.Seconds > 360 || !e.Kernels {
		t.Errorf("got %+v", e)
	}
	if r := (ci.Load{Units: 250, CPUs: 2, Release: true}).Rate(); r.Seconds <= (ci.Load{Units: 250, CPUs: 2}).Rate().Seconds {
		t.Errorf("a release build takes no longer: %+v", r)
	}
}

var update = flag.Bool("update", false, "write the golden files anew")

// TestWorkflowsAreGolden: a change of what users commit into their repositories is read in review.
func TestWorkflowsAreGolden(t *testing.T) {
	w := ci.Workflow{Install: "go install example.org/gpubuild/cmd/gpubuild@v1.0.0", Setup: "sudo apt-get install -y libssl-dev", Dir: "crates/app"}
	s := spec()
	s.Images = map[string]string{"13.3": "nvidia/cuda:13.3.1-devel-ubuntu24.04"}
	s.Excludes = []ci.Axes{{Features: []string{"cuda,cudnn"}, CUDA: []string{"13.3"}}}
	s.Places[0].Wrapper = []string{"srun", "--gres=gpu:1"}
	m := expand(t, s, func(r *ci.Row) (string, error) {
		r.Estimate = ci.Load{Units: 100, Fetch: 140e6, Disk: 400e6, CPUs: 4, KernelsKnown: r.CUDA == "13.4"}.Rate()
		if r.Arch == "sm_90" && r.CUDA == "13.4" {
			return "the toolkit does not compile for it", nil
		}
		return "", nil
	})
	outputs, err := ci.GitHub.Rows(m, ci.Workflow{})
	if err != nil {
		t.Fatal(err)
	}
	child, err := ci.GitLab.Rows(m, w)
	if err != nil {
		t.Fatal(err)
	}
	asJSON, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	text := ci.Text(m, func(n int64) string { return fmt.Sprint(n/1e6, " MB") })
	for name, got := range map[string][]byte{"github.yml": ci.GitHub.Workflow(w), "gitlab.yml": ci.GitLab.Workflow(w), "rows.yml": child, "outputs.txt": outputs, "matrix.json": append(asJSON, '\n'), "matrix.txt": text} {
		path := filepath.Join("..", "..", "..", "testdata", "golden", "ci", name)
		if *update {
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != string(want) {
			t.Errorf("differs from %s (rewrite with -update and read it):\n%s", path, got)
		}
	}
}

// TestWordsForALogAreNoCommands: what a user wrote is told in one line, and GitHub reads no command in it.
func TestWordsForALogAreNoCommands(t *testing.T) {
	for _, s := range []string{"::error::x", "  ::error file=a::x", "a\n::error::x", "##[error]x", "a ##[error]x", "\r::error::x", "a\u2028::error::x", "\t::add-mask::x"} {
		got := ci.OneLine(s)
		if strings.ContainsAny(got, "\r\n\u2028") || strings.HasPrefix(strings.TrimSpace(got), "::") || strings.Contains(got, "##[") {
			t.Errorf("%q became %q", s, got)
		}
	}
}

func BenchmarkExpand200(b *testing.B) {
	s := spec()
	s.Places = nil
	s.Features, s.CUDA = []string{"cuda", "cuda,cudnn"}, nil
	for i := range 10 {
		s.CUDA = append(s.CUDA, fmt.Sprint("13.", i))
	}
	s.Arch = nil
	for i := range 10 {
		s.Arch = append(s.Arch, fmt.Sprint("sm_", 80+i))
	}
	for range b.N {
		m, err := ci.Expand(s, all)
		if err != nil || len(m.Rows) != 200 {
			b.Fatal(len(m.Rows), err)
		}
		if _, err := ci.GitHub.Rows(m, ci.Workflow{}); err != nil {
			b.Fatal(err)
		}
	}
}
