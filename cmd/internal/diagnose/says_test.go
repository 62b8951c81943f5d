package diagnose

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"gpubuild/buildenv/finding"
	"gpubuild/buildenv/hosttest"
	"gpubuild/cmd/internal/cargorun"
	"gpubuild/cmd/internal/console"
	"gpubuild/cmd/internal/proof"
	"gpubuild/cmd/internal/session"
	"gpubuild/toolchain/explain"
)

const wrongArch = "nvcc fatal   : Unsupported gpu architecture 'compute_10'\n"

func rulesOf(t *testing.T) *explain.Rules {
	return hosttest.Must(explain.Default())(t)
}

func collected(t *testing.T, said *bytes.Buffer) Collected {
	return Collected{Machine: &session.Machine{Host: hosttest.Load(t, "linux-bare"), Shell: &console.Shell{Out: said, Err: said}, CacheDir: "/cache", Runner: noProcess(t)},
		Typed: []string{"build"}}
}

// TestBuildsCause: a known cause is said after a failed build; on a terminal that could not be read, how to have it read.
func TestBuildsCause(t *testing.T) {
	t.Parallel()
	known := hosttest.Must(explain.Read(rulesOf(t), strings.NewReader(wrongArch)))(t)
	for _, tt := range []struct {
		built cargorun.Built
		want  bool
		says  string
	}{
		{cargorun.Built{}, false, ""},
		{cargorun.Built{Unread: true}, false, "2>&1 | gpubuild explain"},
		{cargorun.Built{Match: known}, true, "Explaining nvcc fatal"},
		{cargorun.Built{Match: known, Unread: true}, true, "Explaining nvcc fatal"},
	} {
		var said bytes.Buffer
		f, is := Build(t.Context(), tt.built, collected(t, &said))
		if is != tt.want || !strings.Contains(said.String(), tt.says) || tt.says == "" && said.Len() > 0 || is && (f.ID == "" || f.Severity != finding.Error || f.Fix == "" || f.Message == "") {
			t.Errorf("%+v: %v %+v: %q", tt.built, is, f, said.String())
		}
	}
}

// TestProgramsEnd: what is said of a program's end, by what was heard of it or by its exit status.
func TestProgramsEnd(t *testing.T) {
	t.Parallel()
	const silent, missing = "leaves a program's terminal alone", "libcublas.so.13"
	for _, tt := range []struct {
		story string
		e     proof.Ending
		found bool
		says  string // empty: nothing
	}{
		{"it went well", proof.Ending{Verb: "run"}, false, ""},
		{"it failed, unheard", proof.Ending{Verb: "run", Code: 1}, false, silent},
		{"a test failed, unheard", proof.Ending{Verb: "test", Code: 101}, false, ""},
		{"a benchmark failed, unheard", proof.Ending{Verb: "bench", Code: 101}, false, ""},
		{"a test was killed, unheard", proof.Ending{Verb: "test", Code: 139}, false, silent},
		{"a test was not found, unheard", proof.Ending{Verb: "test", Code: 127}, false, silent},
		{"a test at the limit", proof.Ending{Verb: "test", Code: 128}, false, ""},
		{"a library is missing", proof.Ending{Verb: "run", Code: 127, Missing: []string{missing}}, true, "exit status 127, and libcublas.so.13 is found nowhere"},
		{"a library is missing, and it ended otherwise", proof.Ending{Verb: "run", Code: 1, Missing: []string{missing}}, false, silent},
		{"none is missing", proof.Ending{Verb: "run", Code: 127}, false, silent},
	} {
		var said bytes.Buffer
		tt.e.Program, tt.e.Heard = "app", &proof.Listener{}
		list := Program(t.Context(), tt.e, collected(t, &said))
		if (len(list) > 0) != tt.found || !strings.Contains(said.String(), tt.says) || tt.says == "" && said.Len() > 0 {
			t.Errorf("%s: %+v: %q, want %q", tt.story, list, said.String(), tt.says)
		}
	}
}

// TestLogText: how a log is worded: nothing that fails, what is unknown, and what is known; three causes in full.
func TestLogText(t *testing.T) {
	t.Parallel()
	const reads = "nothing in this log "
	for _, tt := range []struct{ log, want, not string }{
		{"hello\n", reads + "(1 line) looks like an error", ""}, {"hello\nyou\n", reads + "(2 lines) looks like an error", ""},
		{"error: something else\n", "unknown: gpubuild does not know the cause of the failure in this log (1 line)", "cause:"},
		{wrongArch, "    cause: ", "times"}, {wrongArch, "       1  nvcc fatal", "unknown"}, {wrongArch + wrongArch, ", 2 times)", ""},
	} {
		l, err := ReadLog(rulesOf(t), "build.log", strings.NewReader(tt.log))
		if text := l.Text(); err != nil || !strings.Contains(text, tt.want) || tt.not != "" && strings.Contains(text, tt.not) {
			t.Errorf("%q: %v %s", tt.log, err, text)
		}
		for _, f := range l.Findings() {
			if f.Path != "build.log" || f.Line != 1 || !strings.HasPrefix(f.ID, "explain.") {
				t.Errorf("%+v", f)
			}
		}
	}
	l, err := ReadLog(rulesOf(t), "-", strings.NewReader(wrongArch))
	if f := l.Findings(); err != nil || len(f) != 1 || f[0].Path != "" {
		t.Errorf("of standard input: %+v %v", f, err)
	}
}

// TestCauses: three are written in full; a consequence is one line, wherever it is in the list.
func TestCauses(t *testing.T) {
	t.Parallel()
	one := foundIn(t, wrongArch, "")
	l := Log{Known: true}
	for range 5 {
		l.Found = append(l.Found, Cause{one, explain.Words{Cause: "c"}})
	}
	l.Match.Found = []explain.Found{one}
	if text := l.Text(); strings.Count(text, "    cause: c\n") != 3 || strings.Count(text, "also seen: ") != 2 {
		t.Errorf("five causes: %s", text)
	}
	note := *one.Rule
	note.Kind = explain.Note
	came := one
	came.Rule = &note
	l.Found = []Cause{{came, explain.Words{Cause: "c"}}, {came, explain.Words{Cause: "c"}}}
	if text := l.Text(); strings.Count(text, "    cause: c\n") != 1 || strings.Count(text, "also seen: ") != 1 {
		t.Errorf("two notes: %s", text)
	}
	if got := causeFinding(came, explain.Words{Cause: "c", Here: []string{"a", "b"}, Fix: "f", Command: "x"}); got.Severity != finding.Note ||
		got.Message != "c Here: a; b." || got.Fix != "f\nx" {
		t.Errorf("%+v", got)
	}
}

// TestMeanings: a code means what the tables of exit codes, of CUDA's statuses and of rules say, and nothing where none has it.
func TestMeanings(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]string{
		"20": "20 as an exit code of gpubuild: ", "CUDA_ERROR_OUT_OF_MEMORY": "CUDA_ERROR_OUT_OF_MEMORY (2, ", "no-such-code": "", "4711": "",
	} {
		m, known := MeaningOf(rulesOf(t), code)
		if text := m.Text(); known != (want != "") || !strings.Contains(text, want) || !known && text != "" {
			t.Errorf("%s: %v %q", code, known, text)
		}
	}
	one := foundIn(t, wrongArch, "")
	if text := (Meaning{Rules: []*explain.Rule{one.Rule, one.Rule}}).Text(); strings.Count(text, "\n\n"+one.ID+" (") != 1 {
		t.Errorf("two rules: %q", text)
	}
	if m, known := MeaningOf(rulesOf(t), one.ID); !known || !strings.HasPrefix(m.Text(), fmt.Sprintf("%s (%s)\n", one.ID, explain.Stages[one.Stage])) || !strings.Contains(m.Text(), "    cause: ") {
		t.Errorf("%s: %v %q", one.ID, known, m.Text())
	}
}
