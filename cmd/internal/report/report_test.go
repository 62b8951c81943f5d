package report_test

import (
	"encoding/json"
	"testing"

	"gpubuild/buildenv/finding"
	"gpubuild/cmd/internal/report"
	"gpubuild/features"
)

func TestEnvelopeKeepsFindingsEvenWhenEmpty(t *testing.T) {
	data, err := report.Envelope("scan", true, nil, struct {
		File string `json:"file"`
	}{"a"})
	noError(t, err)
	want := "{\n  \"schema\": \"gpubuild/scan/1\",\n  \"ok\": true,\n  \"findings\": [],\n  \"file\": \"a\"\n}\n"
	if string(data) != want {
		t.Errorf("got %s, want %s", data, want)
	}
	if _, err := report.Envelope("scan", true, nil, []int{1}); err == nil {
		t.Error("a list was taken for the fields of an object")
	}
	empty, err := report.Envelope("cache", false, []finding.Finding{{ID: "x", Severity: "note", Message: "m"}}, struct{}{})
	if err != nil || !json.Valid(empty) {
		t.Errorf("%s: %v", empty, err)
	}
}

// TestReachLinesWithoutArchive: a crate that downloads a library with CUDA for other targets only is not said to be enabled without a word.
func TestReachLinesWithoutArchive(t *testing.T) {
	root := features.Root{Package: "app", Target: "app", Kind: "bin", Asked: []string{"cuda"}, Crates: []features.CrateState{
		{Name: "ort", Version: "2.0.0-rc.10", Backend: "cuda", On: true}, {Name: "ort-sys", Version: "2.0.0-rc.10", Backend: "cuda", On: true}}}
	for target, want := range map[string]string{
		"":                     "app: cuda enables ort 2.0.0-rc.10, ort-sys 2.0.0-rc.10",
		"aarch64-apple-darwin": "app: cuda enables ort 2.0.0-rc.10, ort-sys 2.0.0-rc.10 (no library with CUDA to download for aarch64-apple-darwin)",
	} {
		lacking := map[string]string{"other 1.0.0": "x"}
		if target != "" {
			lacking["ort-sys 2.0.0-rc.10"] = target
		}
		if got := report.ReachLines(&features.Reach{Roots: []features.Root{root}}, false, lacking); len(got) != 1 || got[0] != want {
			t.Errorf("%q: %q", target, got)
		}
	}
}

// noError ends a test by an error of what it only prepares.
func noError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
