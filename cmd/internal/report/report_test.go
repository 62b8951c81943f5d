package report_test

import (
	"encoding/json"
	"testing"

	"gpubuild/buildenv/finding"
	"gpubuild/cmd/internal/report"
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

// noError ends a test by an error of what it only prepares.
func noError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
