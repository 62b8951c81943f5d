package proof

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpubuild/buildenv/hosttest"
	"gpubuild/buildenv/local"
	"gpubuild/cmd/internal/cargorun"
	"gpubuild/cmd/internal/config"
	"gpubuild/cmd/internal/console"
	"gpubuild/cmd/internal/session"
	"gpubuild/gpu"
	"gpubuild/gpu/verify"
	"gpubuild/toolchain/cargo"
)

// traced is a run that a real GPU recorded.
func traced(t *testing.T, pattern string) verify.Evidence {
	t.Helper()
	files := hosttest.Must(filepath.Glob(filepath.Join("..", "..", "..", "testdata", "traces", "580.159.04-H100", pattern)))(t)
	if len(files) != 1 {
		t.Fatalf("%s: %d traces", pattern, len(files))
	}
	z := hosttest.Must(gzip.NewReader(bytes.NewReader(hosttest.Must(os.ReadFile(files[0]))(t))))(t)
	var x struct{ Evidence verify.Evidence }
	hosttest.OK(t, json.NewDecoder(z).Decode(&x))
	return x.Evidence
}

// TestCoverageOfTraces: what real GPUs recorded, of programs that hold matmul and scale<float>, as compute_90a PTX.
func TestCoverageOfTraces(t *testing.T) {
	t.Parallel()
	h := hosttest.Must(local.Host())(t)
	dir := t.TempDir()
	ptx := hosttest.Must(os.ReadFile(filepath.Join("..", "..", "..", "gpu", "fatbin", "testdata", "kernels.ptx")))(t)
	at := func(name string) string {
		file := filepath.Join(dir, name)
		hosttest.OK(t, os.WriteFile(file, ptx, 0o644))
		return file
	}
	one, two, tool, other := at("one"), at("two"), at("tool"), at("doctest")
	programs := []cargorun.Program{{Name: "one", Path: one, Kind: "test", Package: "a"}, {Name: "two", Path: two, Kind: "test", Package: "b"},
		{Name: "tool", Path: tool, Kind: "bin", Package: "b"}}
	fork := traced(t, "231-*")
	called := traced(t, "231-*")
	for i := range called.Processes {
		called.Processes[i].Exe = tool
	}
	standin := traced(t, "071-*")
	older := traced(t, "231-*")
	for i := range older.Processes {
		for d := range older.Processes[i].Devices {
			older.Processes[i].Devices[d].Capability = gpu.Capability{Major: 8}
		}
	}
	filled := traced(t, "346-*") // fill_f32, and matmul
	dropped, unrecorded := traced(t, "231-*"), traced(t, "231-*")
	dropped.Processes[0].Dropped = 1
	unrecorded.Control.Outcome = verify.ControlUnrecorded
	for story, tt := range map[string]struct {
		words    string
		proofs   []Proof
		limit    int
		want     string
		launches uint64 // of matmul; 0: by the first package none
		below    bool
		ci       bool
	}{
		"one package":                 {proofs: []Proof{{Program: one, Evidence: fork}}, want: "1 of 2 kernels were launched (50%)", launches: 2},
		"its limit":                   {proofs: []Proof{{Program: one, Evidence: fork}}, limit: 50, want: "1 of 2 kernels were launched (50%)", launches: 2},
		"above it":                    {proofs: []Proof{{Program: one, Evidence: fork}}, limit: 51, want: "1 of 2 kernels were launched (50%)", launches: 2, below: true},
		"tests chosen":                {words: " -- matmul", proofs: []Proof{{Program: one, Evidence: fork}}, limit: 51, want: "1 of 2 kernels were launched (50%)", launches: 2},
		"a process for each test":     {proofs: []Proof{{Program: one, Evidence: fork}, {Program: one, Evidence: fork}}, want: "1 of 2 kernels were launched (50%)", launches: 4},
		"by the second package only":  {proofs: []Proof{{Program: one, Evidence: traced(t, "141-*")}, {Program: two, Evidence: fork}}, want: "1 of 2 kernels were launched (50%)"},
		"by both packages":            {proofs: []Proof{{Program: one, Evidence: fork}, {Program: two, Evidence: fork}}, want: "1 of 2 kernels were launched (50%)", launches: 4},
		"a doctest, of any package":   {proofs: []Proof{{Program: one, Evidence: traced(t, "141-*")}, {Program: other, Evidence: fork}}, want: "1 of 2 kernels were launched (50%)", launches: 2},
		"a program that a test calls": {proofs: []Proof{{Program: two, Evidence: called}}, want: "1 of 2 kernels were launched (50%)", launches: 2},
		"on the CPU":                  {proofs: []Proof{{Program: one, Evidence: traced(t, "141-*")}}, want: "0 of 2 kernels were launched (0%)"},
		"not a real GPU":              {proofs: []Proof{{Program: one, Evidence: standin}}, want: "0 of 2 kernels were launched (0%)"},
		"another kernel, too":         {proofs: []Proof{{Program: one, Evidence: filled}}, want: "1 of 2 kernels were launched (50%); of libraries or compiled at run time: 1", launches: 1},
		"a GPU that takes no image":   {proofs: []Proof{{Program: one, Evidence: older}}, limit: 1, want: "the test programs hold no kernel that runs on this GPU; of libraries or compiled at run time: 1", below: true},
		"nothing ran":                 {limit: 1},
		"nothing ran, in CI":          {limit: 1, ci: true},
		"no record":                   {proofs: []Proof{{Program: one, Evidence: unrecorded}}, limit: 1, ci: true},
		"a record was dropped":        {proofs: []Proof{{Program: one, Evidence: dropped}}, limit: 1, ci: true},
		"it profiles itself":          {proofs: []Proof{{Program: one, Evidence: fork}, {Program: two, Evidence: traced(t, "300-*")}}, limit: 1},
	} {
		line, _ := hosttest.Must2(cargo.Split(strings.Fields("test"+tt.words), nil))(t)
		var said bytes.Buffer
		if h.Env = h.Env.Unset("CI"); tt.ci {
			h.Env = h.Env.Set("CI", "true")
		}
		s := &session.Session{Machine: &session.Machine{Host: h, CacheDir: t.TempDir(), Shell: &console.Shell{Err: &said}}, Line: line}
		if tt.limit > 0 {
			s.Config.Test.Value = &config.Tested{Coverage: &tt.limit}
		}
		file := filepath.Join(t.TempDir(), "lcov.info")
		c, err := Request{Session: s, Programs: programs, Options: Options{Coverage: &file}}.cover(tt.proofs)
		if tt.want == "" {
			hosttest.Equal(t, c, nil, story)
			hosttest.Equal(t, fmt.Sprint(err), map[bool]string{true: "exit code 21", false: "<nil>"}[tt.ci], story)
			hosttest.Equal(t, strings.Contains(said.String(), "the kernel coverage was not measured"), true, story, said.String())
			continue
		}
		hosttest.Equal(t, c.Text(), tt.want, story)
		hosttest.Equal(t, fmt.Sprint(err), map[bool]string{true: "exit code 22", false: "<nil>"}[tt.below], story)
		hosttest.Equal(t, strings.Contains(said.String(), "[test] coverage asks for"), tt.below || tt.words != "", story, said.String())
		if len(c.Packages) > 0 {
			hosttest.Equal(t, c.Packages[0].Launched, int(min(tt.launches, 1)), story)
		}
		if tt.launches > 0 {
			hosttest.Equal(t, c.kernels[0].Name, "matmul", story)
			hosttest.Equal(t, c.kernels[0].Launches, tt.launches, story)
		}
	}
}

// TestLCOV: instances of a template are functions of one line, and what has no line is in no file.
func TestLCOV(t *testing.T) {
	c := Coverage{kernels: []CoveredKernel{{mangled: "m", Place: "/s/k.cu:8", Launches: 5}, {mangled: "n", Place: "/s/k.cu:8"}, {mangled: "o"},
		{mangled: "w", Place: `C:\s\w.cu:1`}}}
	hosttest.Equal(t, c.lcov(), "TN:gpubuild\nSF:/s/k.cu\nFN:8,m\nFN:8,n\nFNDA:5,m\nFNDA:0,n\nFNF:2\nFNH:1\nDA:8,5\nLF:1\nLH:1\nend_of_record\n"+
		"TN:gpubuild\nSF:C:\\s\\w.cu\nFN:1,w\nFNDA:0,w\nFNF:1\nFNH:0\nDA:1,0\nLF:1\nLH:0\nend_of_record\n")
}
