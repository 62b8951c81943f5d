package ci_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gpubuild/buildenv/exit"
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
	base := expand(t, spec(), all).Rows[0]
	if !strings.HasPrefix(base.CacheKey, "gpubuild2-linux-x86_64-cuda13.3-sm_80-") || !strings.HasSuffix(base.CacheKey, "-0123456789ab") {
		t.Errorf("got %s", base.CacheKey)
	}
	for name, change := range map[string]func(*ci.Spec){
		"toolkit":  func(s *ci.Spec) { s.CUDA = []string{"13.4"} },
		"arch":     func(s *ci.Spec) { s.Arch = []string{"sm_90"} },
		"lock":     func(s *ci.Spec) { s.Lock = "ba9876543210" },
		"features": func(s *ci.Spec) { s.Features = []string{"cuda,x"} },
		"profile":  func(s *ci.Spec) { s.Profile = []string{"release"} },
		"source":   func(s *ci.Spec) { s.Toolkit = ci.Runner },
	} {
		s := spec()
		change(&s)
		if got := expand(t, s, all).Rows[0]; got.CacheKey == base.CacheKey {
			t.Errorf("%s: another %s has the same cache: %s", name, name, got.CacheKey)
		}
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
	if _, err := ci.GitHub.Rows(expand(t, grow(256), all), ci.Workflow{}); err != nil {
		t.Error(err)
	}
	if _, err := ci.GitHub.Rows(expand(t, grow(257), all), ci.Workflow{}); exit.Of(err) != exit.Config || !strings.Contains(err.Error(), "has 257 rows, and") || !strings.HasSuffix(err.Error(), "takes 256") {
		t.Errorf("GitHub: got %v", err)
	}
	if _, err := ci.GitLab.Rows(expand(t, grow(200), all), ci.Workflow{}); err != nil {
		t.Error(err)
	}
	if _, err := ci.GitLab.Rows(expand(t, grow(201), all), ci.Workflow{}); exit.Of(err) != exit.Config || !strings.HasSuffix(err.Error(), "takes 200") || exit.Hint(err) == "" {
		t.Errorf("GitLab: got %v", err)
	}
	s := grow(3000)
	s.CUDA = grow(3000).Arch
	s.Features = grow(3000).Arch // 2.7e10 rows: it must be refused before any is made
	if _, err := ci.Expand(s, all); exit.Of(err) != exit.Config {
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
	if err := m.Refuse(); exit.Of(err) != exit.Misfit || !strings.Contains(err.Error(), "nothing can be proven on a100") || !strings.Contains(err.Error(), "no GPU there") {
		t.Errorf("got %v", err)
	}
	if err := expand(t, spec(), all).Refuse(); err != nil {
		t.Error(err)
	}
	empty := expand(t, spec(), func(*ci.Row) (string, error) { return "never", nil })
	if err := empty.Refuse(); exit.Of(err) != exit.Misfit {
		t.Errorf("an empty matrix: got %v", err)
	}
}

// TestGitLabTakesNoWindowsRows: its runners there read scripts by PowerShell, and ours would be read as something else.
func TestGitLabTakesNoWindowsRows(t *testing.T) {
	s := spec()
	s.Platform, s.Runners = []string{"windows-x86_64"}, map[string][]string{"windows-x86_64": {"win"}}
	if _, err := ci.GitLab.Rows(expand(t, s, all), ci.Workflow{}); exit.Of(err) != exit.Config || exit.Hint(err) == "" {
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
	m := ci.Matrix{Rows: []ci.Row{
		{ID: "r", Kind: ci.Compile, Features: "cuda,cudnn", CUDA: "13.4", Arch: "sm_90", Profile: "release", Toolkit: ci.Fetch, Parts: []string{"cudnn"},
			Packed: true, CargoArgs: []string{"-p", "app"}},
		{ID: "prove-r", Kind: ci.Proof, Compile: "r", Wrapper: []string{"srun", "--gres=gpu:1"}, Args: []string{"--device", "it's"}},
	}}
	want := []string{
		`toolkit: gpubuild toolchain install 13.4 --parts=cudnn`,
		`build: CARGO_TARGET_DIR=target/gpubuild-ci/r GPUBUILD_ROW=r gpubuild build --gpu-junit=target/gpubuild-ci/results/r/build.xml --gpu-receipt=target/gpubuild-ci/results/r/build.json --features=cuda,cudnn --release --gpu-toolkit=13.4 --gpu-arch=sm_90 -p app`,
		`archive: gpubuild ci archive r`,
		`prove: gpubuild ci prove target/gpubuild-ci/archives/r.tar --row=prove-r --results=target/gpubuild-ci/results/prove-r`,
	}
	for id, n := range map[string]int{"r": 3, "prove-r": 4} {
		_, steps, err := m.Steps(id, "")
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, s := range steps {
			got = append(got, s.Name+": "+s.Script())
		}
		if !slices.Equal(got, want[:n]) {
			t.Errorf("%s: got\n%s\nwant\n%s", id, strings.Join(got, "\n"), strings.Join(want[:n], "\n"))
		}
	}
	if steps := ci.Steps(ci.Row{ID: "r", Kind: ci.Compile, Toolkit: ci.None}); len(steps) != 1 || strings.Contains(steps[0].Script(), "toolkit=") {
		t.Errorf("a compile row of driver-only crates: %+v", steps)
	}
}

// TestAForkReachesNoMachineOfYours: rows on the user's own machines, those that compile included, are no part of a stranger's matrix.
func TestAForkReachesNoMachineOfYours(t *testing.T) {
	s := spec()
	s.Platform = []string{"linux-x86_64", "linux-aarch64"}
	s.Runners["linux-aarch64"] = []string{"self-hosted", "arm"}
	whole := expand(t, s, all)
	m, err := whole.HostedOnly()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range m.Rows {
		if r.Kind != ci.Compile || r.Platform != "linux-x86_64" || r.Packed {
			t.Errorf("%+v is left", r)
		}
	}
	if len(m.Rows) != 8 || m.Withheld() != len(whole.Rows)-8 {
		t.Errorf("%d rows, %d withheld", len(m.Rows), m.Withheld())
	}
}

// TestImagesArePinned: a tag may mean another image tomorrow.
func TestImagesArePinned(t *testing.T) {
	s := spec()
	s.Images = map[string]string{"13.3": "example.org/image:1"}
	for _, p := range ci.Providers() {
		if _, err := p.Rows(expand(t, s, all), ci.Workflow{}); exit.Of(err) != exit.Config || !strings.Contains(err.Error(), "is not pinned") {
			t.Errorf("%s: got %v", p.Name(), err)
		}
	}
	if _, err := ci.GitLab.Rows(expand(t, spec(), all), ci.Workflow{Image: "rust:1"}); exit.Of(err) != exit.Config || !strings.Contains(err.Error(), "is not pinned") {
		t.Errorf("got %v", err)
	}
}

// TestAProofNeedsItsCompileRow: where the row that compiles is left out, nothing could be proven.
func TestAProofNeedsItsCompileRow(t *testing.T) {
	m := expand(t, spec(), func(r *ci.Row) (string, error) {
		if r.Kind == ci.Compile && r.CUDA == "13.3" {
			return "no", nil
		}
		return "", nil
	})
	proofs := m.Of(ci.Proof)
	if len(proofs) != 1 || proofs[0].Compile != "cuda-cuda13.4-sm_80-linux-x86_64-dev" {
		t.Errorf("got %+v", proofs)
	}
	for _, r := range m.Of(ci.Compile) {
		if r.Packed != (r.ID == proofs[0].Compile) {
			t.Errorf("%s: packed %v", r.ID, r.Packed)
		}
	}
}

// TestNoProofVanishes: a place that selects no row is refused as one whose rows are all left out, and an image without a digest everywhere.
func TestNoProofVanishes(t *testing.T) {
	s := spec()
	if err := expand(t, s, all).Refuse(); err != nil {
		t.Fatal(err)
	}
	for _, axes := range []ci.Axes{{Arch: []string{"sm_100"}}, {Platform: []string{"windows-x86_64"}}} {
		s.Places = append(spec().Places, ci.Place{Name: "b", Axes: axes, Runner: []string{"x"}})
		err := expand(t, s, all).Refuse()
		if exit.Of(err) != exit.Misfit || !strings.Contains(err.Error(), "nothing can be proven on b, which [[matrix.prove]] names") {
			t.Errorf("%v: %v", axes, err)
		}
	}
	s = spec()
	s.Images = map[string]string{"13.3": "example.org/image:1"}
	if err := expand(t, s, all).Refuse(); exit.Of(err) != exit.Config {
		t.Errorf("got %v", err)
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
		{ci.Row{Runner: []string{"ubuntu-22.04"}, Container: "nvidia/cuda:12.8.1-devel-ubuntu24.04@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"}, "gcc 13"},
		{ci.Row{Runner: []string{"ubuntu-22.04"}, Container: "example.org/own:1"}, ""},
	}
	for _, tt := range tests {
		if got := strings.Join(m.Compilers(tt.row, map[string][]string{"mine": {"gcc 15"}}), " "); got != tt.want {
			t.Errorf("%v %s: got %q, want %q", tt.row.Runner, tt.row.Container, got, tt.want)
		}
	}
}

// TestARowThatUsesNoToolkitExistsOnce: a build that uses neither a CUDA version nor an architecture is one row, named without them; a filter
// still takes it by the values that it was made of.
func TestARowThatUsesNoToolkitExistsOnce(t *testing.T) {
	s := spec()
	s.Features = []string{"cuda", "metal", ""}
	s.CUDNN = []string{"auto", "none"}
	s.Platform = []string{"linux-x86_64", "macos-aarch64"}
	s.Excludes = []ci.Axes{{Platform: []string{"macos-aarch64"}, Features: []string{"cuda"}}, {Arch: []string{"sm_80"}, Features: []string{""}}}
	s.Images = map[string]string{"13.3": "example.org/image:1"}
	s.Places[0].Features = nil
	s.Uses = func(features string) ci.Uses { return ci.Uses{CUDA: features == "cuda", Arch: features == "cuda"} }
	m := expand(t, s, all)
	want := "cuda-cuda13.3-sm_80-linux-x86_64-dev prove-a100-cuda-cuda13.3-sm_80-linux-x86_64-dev cuda-cuda13.3-sm_90-linux-x86_64-dev " +
		"cuda-cuda13.4-sm_80-linux-x86_64-dev prove-a100-cuda-cuda13.4-sm_80-linux-x86_64-dev cuda-cuda13.4-sm_90-linux-x86_64-dev " +
		"metal-linux-x86_64-dev prove-a100-metal-linux-x86_64-dev metal-macos-aarch64-dev prove-a100-metal-macos-aarch64-dev " +
		"default-linux-x86_64-dev default-macos-aarch64-dev"
	if got := strings.Join(ids(m.Rows), " "); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	for _, r := range m.Rows {
		if r.Kind == ci.Compile && r.Features != "cuda" && (r.Container != "" || r.CUDA+r.Arch != "" || !strings.Contains(r.CacheKey, "-nocuda-")) {
			t.Errorf("%+v uses no toolkit", r)
		}
	}
	if len(m.LeftOut) != 4 || m.Same == 0 {
		t.Errorf("%d combinations are the same; left out: %v", m.Same, m.LeftOut)
	}
}

// TestTimesComeFromResults: a row without a result has no time.
func TestTimesComeFromResults(t *testing.T) {
	m := expand(t, spec(), all)
	timed := m.Timed(map[string]float64{m.Rows[0].ID: 240})
	text := string(ci.Text(timed, func(int64) string { return "" }))
	if !strings.Contains(text, "4 min\n") || !strings.Contains(text, "; 1 row took 4 min last time") || m.Rows[0].Seconds != 0 {
		t.Errorf("got\n%s", text)
	}
	data, err := json.Marshal(timed.Rows[1])
	if err != nil || strings.Contains(string(data), "seconds") {
		t.Errorf("%s %v", data, err)
	}
}

var update = flag.Bool("update", false, "write the golden files anew")

// TestWorkflowsAreGolden: a change of what users commit into their repositories is read in review.
func TestWorkflowsAreGolden(t *testing.T) {
	w := ci.Workflow{Install: "go install example.org/gpubuild/cmd/gpubuild@v1.0.0", Setup: "sudo apt-get install -y libssl-dev", Dir: "crates/app"}
	s := spec()
	s.Images = map[string]string{"13.3": "nvidia/cuda:13.3.1-devel-ubuntu24.04@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"}
	s.Excludes = []ci.Axes{{Features: []string{"cuda,cudnn"}, CUDA: []string{"13.3"}}}
	s.Places[0].Wrapper = []string{"srun", "--gres=gpu:1"}
	m := expand(t, s, func(r *ci.Row) (string, error) {
		r.Download = 140e6
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
