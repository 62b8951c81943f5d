package features

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"gpubuild/buildenv/finding"
	"gpubuild/buildenv/hosttest"
	"gpubuild/features/edit"
	"gpubuild/features/manifest"
)

// TestOneFindingALine: what is said of one line of a manifest is said once, with every edge that it lacks.
func TestOneFindingALine(t *testing.T) {
	h := hosttest.Memory(map[string]string{
		"/w/Cargo.toml": pkg("a", "[features]\ncuda = []\ncudnn = [\"core/cudnn\"]\n[dependencies]\ncore = { path = \"core\" }\nnn = { path = \"nn\" }\n"),
	})
	p, err := manifest.Load(h, "/w/Cargo.toml")
	if err != nil {
		t.Fatal(err)
	}
	const path = "/w/Cargo.toml"
	judged := func(id, severity, message, feature string, add ...string) Finding {
		return Finding{Finding: finding.Finding{ID: id, Severity: severity, Message: message, Path: path, Line: p.Selected.FeatureLine(feature), Fix: "x"}, Edits: []edit.Edit{{Manifest: path, Feature: feature, Add: add}}}
	}
	named := func(severity, feature, to string) Finding {
		f := Finding{Finding: finding.Finding{ID: IDPropagation, Severity: severity, Path: path, Line: p.Selected.FeatureLine(feature)}, Root: "a", line: lineAt{feature, []string{to + "/" + feature}, []string{to}}}
		f.Message = propagationMessage([]Finding{f})
		return f
	}
	beside := func(message string) Finding {
		return Finding{Finding: finding.Finding{ID: IDUnreached, Severity: Error, Message: message, Path: path, Line: 6}, line: lineAt{feature: "cuda", edges: []string{"core/cuda"}}, beside: true}
	}
	other := Finding{Finding: finding.Finding{ID: IDNoVersion, Severity: Error, Message: "no edge", Path: path}}
	tests := []struct {
		story string
		list  []Finding
		want  []string
	}{
		{"names alone", []Finding{named(Note, "cuda", "nn"), named(Warning, "cuda", "core")}, []string{"warning 6 `cuda` of a is not passed on to nn, core, which have it, too: cuda = [\"nn/cuda\", \"core/cuda\"]"}},
		{"two lines", []Finding{named(Warning, "cuda", "nn"), named(Warning, "cudnn", "nn")}, []string{"warning 6 `cuda` of a is not passed on to nn, which has it, too: cuda = [\"nn/cuda\"]", "warning 7 `cudnn` of a is not passed on to nn, which has it, too: cudnn = [\"core/cudnn\", \"nn/cudnn\"]"}},
		{"judged goes before names", []Finding{judged(IDUnreached, Error, "it ends", "cuda", "core/cuda", "nn/cuda"), named(Warning, "cuda", "core"), named(Warning, "cuda", "nn")}, []string{"error 6 it ends: cuda = [\"core/cuda\", \"nn/cuda\"]"}},
		{"a name that was not judged adds its edge", []Finding{judged(IDUnreached, Error, "it ends", "cuda", "core/cuda"), named(Warning, "cuda", "nn")}, []string{"error 6 it ends: cuda = [\"core/cuda\", \"nn/cuda\"]"}},
		{"one that only forwards does not", []Finding{judged(IDUnreached, Error, "it ends", "cuda", "core/cuda"), named(Note, "cuda", "nn")}, []string{"error 6 it ends: cuda = [\"core/cuda\"]"}},
		{"two faults of a line, the worse one first", []Finding{judged(IDSibling, Warning, "nn is off", "cudnn", "cuda"), judged(IDCudnnAlone, Error, "own code is off", "cudnn", "cuda")}, []string{"error 7 own code is off; nn is off: cudnn = [\"core/cudnn\", \"cuda\"]"}},
		{"a part of others' mends is said where nothing is said of the package itself", []Finding{beside("on the way from b"), judged(IDUnreached, Error, "it ends", "cuda", "core/cuda"), beside("on the way from c")},
			[]string{"error 6 it ends: cuda = [\"core/cuda\"]"}},
		{"parts of others' mends alone", []Finding{beside("on the way from b"), beside("on the way from c")}, []string{"error 6 on the way from b; on the way from c: cuda = [\"core/cuda\"]"}},
		{"what no edge mends stays", []Finding{other, judged(IDUnreached, Error, "it ends", "cuda", "core/cuda"), other}, []string{"error 0 no edge: ", "error 6 it ends: cuda = [\"core/cuda\"]", "error 0 no edge: "}},
	}
	for _, tt := range tests {
		t.Run(tt.story, func(t *testing.T) {
			var got []string
			for _, f := range PerLine(p, tt.list) {
				got = append(got, fmt.Sprintf("%s %d %s: %s", f.Severity, f.Line, f.Message, f.Fix))
			}
			if strings.Join(got, "\n") != strings.Join(tt.want, "\n") {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
			}
		})
	}
}

// TestSameHint: faults of one line say the same hint, with every edge that it lacks; those of other lines, notes and what no edge mends keep theirs.
func TestSameHint(t *testing.T) {
	h := hosttest.Memory(map[string]string{
		"/w/Cargo.toml": pkg("a", "[features]\ncuda = []\ncudnn = [\"core/cudnn\"]\n[dependencies]\ncore = { path = \"core\" }\nnn = { path = \"nn\" }\n"),
	})
	const path = "/w/Cargo.toml"
	p, err := manifest.Load(h, path)
	if err != nil {
		t.Fatal(err)
	}
	fault := func(severity, feature string, add ...string) Finding {
		return Finding{Finding: finding.Finding{ID: IDSibling, Severity: severity, Path: path, Fix: "its own"}, Edits: []edit.Edit{{Manifest: path, Feature: feature, Add: add}}}
	}
	list := []Finding{
		fault(Error, "cudnn", "cuda"), fault(Warning, "cudnn", "nn/cuda"), fault(Error, "cuda", "core/cuda"), fault(Note, "cudnn", "other/cuda"),
		{Finding: finding.Finding{ID: IDNoVersion, Severity: Error, Path: path, Fix: "another crate"}},
	}
	SameHint(p, list)
	var got []string
	for _, f := range list {
		got = append(got, f.Fix)
	}
	both := `cudnn = ["core/cudnn", "cuda", "nn/cuda"]`
	if want := []string{both, both, "its own", "its own", "another crate"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	// Two faults with the same mend keep it as it is.
	list = []Finding{fault(Error, "cudnn", "cuda"), fault(Warning, "cudnn", "cuda")}
	if SameHint(p, list); list[0].Fix != "its own" {
		t.Errorf("%q", list[0].Fix)
	}
}
