package features

import (
	"strings"
	"testing"

	"gpubuild/buildenv/finding"
	"gpubuild/buildenv/hosttest"
	"gpubuild/features/edit"
	"gpubuild/features/manifest"
)

// TestRefusedEdges: which edges cargo refuses, and what each is likely to have meant.
func TestRefusedEdges(t *testing.T) {
	t.Parallel()
	const deps = "\n[dependencies]\nnn = { path = \"nn\" }\nopt = { path = \"opt\", optional = true }\ncandle-core = { version = \"0.9\", optional = true }\nother = \"1\"\n"
	for _, tt := range []struct{ edge, want string }{
		{"nn/cuda", ""},
		{"opt?/cuda", ""},
		{"opt", ""},
		{"dep:opt", ""},
		{"nn", "nn/cuda | `cuda` of app enables `nn`, which cargo refuses: `nn` is not optional"},
		{"nn/cuad", "nn/cuda"},
		{"nn/cda", "nn/cuda"},
		{"nn/accelerate", "none | `cuda` of app enables `nn/accelerate`, which cargo refuses: `nn` has no feature `accelerate`"},
		{"nn/use-gpu", "nn/cuda"}, // the one feature of nn for a GPU
		{"nn/use-cuda", "nn/cuda"},
		{"nn/use-metal", "none"},
		{"nn?/gpu-code", "none"},
		{"nn?/cuda", "nn/cuda"},
		{"dep:nn", "nn/cuda"},
		{"dep:many", "many/cuda"}, // and not many/cudnn
		{"dep:other", "none"},
		{"dep:op", "none"}, // two letters of two
		{"dep:optt", "opt"},
		{"cud", "none"}, // the feature itself is none
		{"cuda3", "cuda2"},
		{"opt/gpus", "opt/gpu"},
		{"opt?/gpus", "opt?/gpu"},
		{"opt/cudax", "opt/cuda"},
		{"opt/vulkan", "opt/gpu"},
		{"both/cuda", "none"},
		{"candle-core/cuda", ""},
		{"candle-core/cudda", "candle-core/cuda"},
		{"candle-core/cudaa", ""},      // nor does cargo say so
		{"candle-core/unheard-of", ""}, // of what is not here nothing is known
		{"other/cuda", ""},
		{"candle/cuda", "candle-core/cuda"}, // no dependency, and one begins so
		{"nothere/cuda", "none | `cuda` of app enables `nothere/cuda`, which cargo refuses: there is no dependency `nothere`"},
		{"cuda", "cuda2 | `cuda` of app enables `cuda`, which cargo refuses: it is the feature itself"},
		{"dep:nothere", "none | `cuda` of app enables `dep:nothere`, which cargo refuses: there is no dependency `nothere`"},
		{"nowhere", "none | `cuda` of app enables `nowhere`, which cargo refuses: there is no such feature"},
		{"other/defaul", "other/default"},
		{"member/cuda", "declare cuda of member"},
		{"member/fast", "none"},
		{"whisper-rs/gpu", "none"}, // it has features of other names for it
	} {
		p := hosttest.Must(manifest.Load(hosttest.Memory(map[string]string{
			"/w/Cargo.toml": pkg("app", "[workspace]\nmembers = [\"member\", \"whisper-rs\"]\n[features]\ncuda = [\""+tt.edge+"\"]\ncuda2 = []\nzz = []"+deps+
				"member = { path = \"member\" }\nboth = { path = \"both\" }\nmany = { path = \"many\" }\nwhisper-rs = { path = \"whisper-rs\" }\n"),
			"/w/whisper-rs/Cargo.toml": pkg("whisper-rs", "[features]\ncuda = []\nmetal = []\n"),
			"/w/nn/Cargo.toml":         pkg("nn", "[features]\ncuda = []\n"),
			"/w/opt/Cargo.toml":        pkg("opt", "[features]\ncuda = []\ngpu = []\n"),
			"/w/many/Cargo.toml":       pkg("many", "[features]\ncuda = []\ncudnn = []\n"),
			"/w/both/Cargo.toml":       pkg("both", "[features]\ncuda-dynamic = []\ncuda-static = []\n"),
			"/w/member/Cargo.toml":     pkg("member", "[features]\nslow = []\n"),
		}), "/w/Cargo.toml"))(t)
		got, message := "", ""
		for _, f := range RefusedEdges(p, p.Selected, "without `cudda` and `defaul`") {
			if got = "none"; len(f.Edits) == 1 {
				if e := f.Edits[0]; e.Instead == tt.edge && len(e.Add) == 1 && e.Manifest == "/w/Cargo.toml" && strings.Contains(f.Fix, e.Add[0]) {
					got = e.Add[0]
				} else if e.Instead == "" && (e.Manifest == "/w/member/Cargo.toml" || e.Manifest == "/w/whisper-rs/Cargo.toml") {
					got = "declare " + e.Feature + " of " + strings.Split(e.Manifest, "/")[2]
				}
			}
			message = f.Message
			if f.ID != IDRefused || f.Path != "/w/Cargo.toml" || f.Line == 0 || f.Root != "app" {
				t.Errorf("%s: %+v", tt.edge, f)
			}
		}
		want, words, worded := strings.Cut(tt.want, " | ")
		if got != want || worded && message != words {
			t.Errorf("%s: %q (%s), want %q", tt.edge, got, message, tt.want)
		}
	}
}

// TestOneOfACause: what another finding repeats, or whose edits another one has that is as grave, is left out.
func TestOneOfACause(t *testing.T) {
	t.Parallel()
	of := func(severity string, message string, edits ...edit.Edit) Finding {
		return Finding{Finding: finding.Finding{ID: "x", Severity: severity, Message: message}, Edits: edits}
	}
	one := edit.Edit{Manifest: "a", Feature: "cuda", Add: []string{"x/cuda"}}
	two := edit.Edit{Manifest: "a", Feature: "cuda", Add: []string{"x/cuda", "y/cuda"}}
	other := edit.Edit{Manifest: "b", Feature: "cuda", Add: []string{"x/cuda"}}
	named := edit.Edit{Manifest: "a", Feature: "gpu", Add: []string{"x/cuda"}}
	for _, tt := range []struct {
		story string
		list  []Finding
		want  string
	}{
		{"nothing in common", []Finding{of(Error, "1", one), of(Error, "2", other)}, "1 2"},
		{"the same twice", []Finding{of(Error, "1"), of(Error, "1")}, "1"},
		{"the same words, another severity", []Finding{of(Error, "1"), of(Warning, "1")}, "1 1"},
		{"the edits of a larger one", []Finding{of(Error, "1", one), of(Error, "2", two)}, "2"},
		{"before it", []Finding{of(Error, "2", two), of(Error, "1", one)}, "2"},
		{"edits of two", []Finding{of(Error, "1", one, other), of(Error, "2", two)}, "1 2"},
		{"an error is not left out for a warning", []Finding{of(Error, "1", one), of(Warning, "2", two)}, "1 2"},
		{"a warning is for an error", []Finding{of(Warning, "1", one), of(Error, "2", two)}, "2"},
		{"a note is for a warning", []Finding{of(Note, "1", one), of(Warning, "2", two)}, "2"},
		{"the same edits: the first is kept", []Finding{of(Error, "1", one), of(Error, "2", one)}, "1"},
		{"of another feature", []Finding{of(Error, "1", one), of(Error, "2", named)}, "1 2"},
		{"no edits are not those of another", []Finding{of(Error, "1"), of(Error, "2", two)}, "1 2"},
	} {
		var got []string
		for _, f := range OneOfACause(tt.list) {
			got = append(got, f.Message)
		}
		hosttest.Equal(t, strings.Join(got, " "), tt.want, tt.story, got)
	}
}

// TestNearestOfALongEdge: one of megabytes is compared with nothing.
func TestNearestOfALongEdge(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	if n := testing.AllocsPerRun(1, func() { nearest(long, []string{"dep:cudarc", "cudarc/cuda"}) }); n > 0 {
		t.Errorf("it was compared: %v allocations", n)
	}
	hosttest.Equal(t, nearest("cudarc/cuad", []string{"dep:cudarc", "cudarc/cuda"}), "cudarc/cuda")
}
