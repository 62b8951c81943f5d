package report_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"flag"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/renderer/html"

	"gpubuild/buildenv/finding"
	"gpubuild/buildenv/hosttest/need"
	"gpubuild/cmd/internal/console"
	"gpubuild/cmd/internal/origin"
	"gpubuild/cmd/internal/receipt"
	"gpubuild/cmd/internal/report"
	"gpubuild/gpu"
	"gpubuild/gpu/verify"
	"gpubuild/toolchain/cargo"
)

const repository = "../../.."

var update = flag.Bool("update", false, "rewrite the golden files")

var began = time.Date(2026, 11, 21, 6, 30, 0, 0, time.UTC)

const uuid = "GPU-7374616e-642d-696e-0000-000000000000"

// samples are the results of which every renderer's output is golden.
func samples() map[string]report.Result {
	set := &report.Set{Toolkit: "13.4.92", Root: "/opt/cuda-13.4", Compiler: "gcc 12.2.0", CUDNN: "9.21.1", Arch: "sm_90", ArchOrigin: "--gpu-arch", Driver: "580.65.06"}
	reach := &report.Features{Asked: []string{"cuda", "cudnn"}, Via: "unit graph", Roots: []report.Root{
		{Package: "app", Target: "app", Kind: "bin", Reached: true, On: []string{"candle-core 0.11.1", "cudarc 0.19.10"}, Off: []string{}}}}
	passed := []report.Check{
		{ID: report.CheckReach, State: report.Passed, Message: "app: cuda, cudnn reach candle-core 0.11.1, cudarc 0.19.10 (unit graph)", Seconds: 0.11},
		{ID: report.CheckToolchain, State: report.Passed, Message: "CUDA 13.4.92, gcc 12.2.0, cuDNN 9.21.1, sm_90", Seconds: 0.02},
		{ID: report.CheckStale, State: report.Passed, Message: "cleaned candle-kernels"},
		{ID: report.CheckBuild, State: report.Passed, Message: "1 program", Seconds: 322.4},
	}
	app := report.Program{Name: "app", Path: "target/release/app", Kind: "bin", Package: "app", Code: "12 cubin sm_90a (nvcc 13.4.92)"}
	of := &origin.Origin{Commit: "0123456789abcdef0123456789abcdef01234567", Branch: "main", Run: "https://example.org/o/r/actions/runs/12", Row: "linux-x64-cuda13.4-sm90", Attempt: 2}
	base := report.Result{Verb: "build", Row: of.Row, Origin: of, Gpubuild: "v1.2.3", At: began, Seconds: 323.1, Project: "Cargo.toml", Name: "app",
		Command: []string{"gpubuild", "build", "--features", "cuda,cudnn"}, Features: reach, Set: set, Findings: []finding.Finding{}}

	compiled := base
	compiled.Stale, compiled.Cleaned = []string{"candle-kernels: nvcc was 13.3.33, is 13.4.92"}, []string{"candle-kernels"}
	compiled.Programs = []report.Program{app}
	compiled.Checks = append(append([]report.Check{}, passed...), report.Check{ID: report.CheckProof, Name: "app", State: report.Skipped, Message: "no GPU here"})

	proven := base
	proven.Verb, proven.At = "run", began.Add(time.Hour)
	ran := app
	ran.Proof = &report.Proof{Verdict: verify.Proved.String(), Lines: []string{"ran: 3 launches of matmul"}, Device: "NVIDIA H200", UUID: uuid, Driver: "580.65.06", Launches: 3, TotalNS: 4200, Kernels: []string{"matmul"}}
	proven.Programs = []report.Program{ran}
	proven.Checks = append(append([]report.Check{}, passed...), report.Check{ID: report.CheckProof, Name: "app", State: report.Passed, Message: "ran its kernel on NVIDIA H200", Detail: "ran: 3 launches of matmul"})

	proven.Watch = &gpu.Summary{GPUs: []gpu.Usage{{Name: "NVIDIA H200", UUID: uuid, Seconds: 41, Busy: new(0.03), Temperature: 61, Memory: new(uint64(8e9)),
		MemoryTotal: 144e9, Joules: 3200, Throttled: new(float64)}},
		Alerts: []gpu.Alert{{Kind: gpu.AlertIdle, Time: began, Message: "GPU 0 has been idle for 30 s"}}}

	unreached := base
	unreached.Code, unreached.Set, unreached.Row, unreached.Origin = 10, nil, "", nil
	unreached.Features = &report.Features{Asked: []string{"cuda"}, Via: "unit graph", Stops: true, Roots: []report.Root{{Package: "app", Target: "app", Kind: "bin", On: []string{}, Off: []string{"candle-core 0.11.1"}}}}
	unreached.Findings = []finding.Finding{
		{ID: "features.unreached", Severity: finding.Error, Message: "`cuda` of app does not reach candle-core 0.11.1", Path: "app/Cargo.toml", Line: 12, Fix: "cuda = [\"candle-core/cuda\"]", Evidence: "cargo's unit graph"},
		{ID: "features.partial", Severity: finding.Warning, Message: "candle-nn 0.11.1 is linked without its CUDA code", Path: "/elsewhere/Cargo.toml", Line: 3},
		{ID: "features.undecided", Severity: finding.Note, Message: "trueno-gpu turns CUDA on"},
	}
	unreached.Checks = []report.Check{
		{ID: report.CheckReach, State: report.Failed, Message: "`cuda` of app does not reach candle-core 0.11.1"},
		{ID: report.CheckToolchain, State: report.Skipped, Message: "not reached: reach failed"},
	}

	hostile := base
	hostile.Row, hostile.Code, hostile.Verb = "row\n::error::1 | `x` <b>", 20, "test"
	hostile.Findings = []finding.Finding{{ID: "a.b\n::warning::x", Severity: finding.Warning, Path: "dir,with:odd%0Aname/Cargo.toml", Line: 1,
		Message: nasty, Fix: nasty, Evidence: nasty}}
	hostile.Checks = []report.Check{{ID: report.CheckProof, Name: nasty, State: report.Failed, Message: nasty, Detail: nasty}}
	hostile.Watch = &gpu.Summary{GPUs: []gpu.Usage{{Name: nasty}}, Alerts: []gpu.Alert{{Kind: nasty, Message: nasty}}}
	hostile.Programs = []report.Program{{Name: nasty, Path: nasty, Code: nasty, Proof: &report.Proof{Verdict: verify.NotUsed.String(), Why: nasty, Device: nasty, Adapter: nasty}}}
	return map[string]report.Result{"compiled": compiled, "proven": proven, "unreached": unreached, "hostile": hostile}
}

// nasty is what a manifest, a log or a program could put into a message.
const nasty = "one\r\n::error file=x::pwned%0A::warning::\n##[error]v1 ]]> </failure><script>alert(1)</script> `a` |b| [x](http://e.vil) <img src=x onerror=alert(1)> @all #1 $x$ &amp; \x1b[31m\x00\x07 \xff\xfe \u202eright-to-left\u2028 {{.}} *b* ~~s~~ https://e.vil www.e.vil"

// render gives each form of a result.
func render(t testing.TB, r report.Result) map[string]string {
	t.Helper()
	must := func(data []byte, err error) string {
		t.Helper()
		noError(t, err)
		return string(data)
	}
	return map[string]string{
		"json": must(r.Answer(nil)), "sarif": must(r.SARIF("Cargo.toml")), "xml": must(r.JUnit()), "md": r.Summary(1 << 20),
		"annotations.txt": report.Annotations(r.Findings),
	}
}

func TestRenderersAreGolden(t *testing.T) {
	for name, r := range samples() {
		for form, got := range render(t, r) {
			path := filepath.Join(repository, "testdata", "golden", "render", name+"."+form)
			golden(t, path, got)
		}
	}
}

func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		noError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		noError(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	noError(t, err)
	if got != string(want) {
		t.Errorf("differs from %s (rewrite with -update and read it):\n%s", path, got)
	}
}

func sarifSchema(t testing.TB) *jsonschema.Resolved {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(repository, "testdata", "schema", "sarif-2.1.0.json"))
	noError(t, err)
	// The library knows no draft 4; what this schema has of it, draft 7 writes in the same way, except for these two lines.
	text := strings.NewReplacer("json-schema.org/draft-04/", "json-schema.org/draft-07/", "\"id\": \"https://docs.", "\"$id\": \"https://docs.").Replace(string(data))
	var s jsonschema.Schema
	noError(t, json.Unmarshal([]byte(text), &s))
	resolved, err := s.Resolve(nil)
	noError(t, err)
	return resolved
}

// wrongSARIF is what is wrong with a SARIF file. The library judges no format: its URIs are read here.
func wrongSARIF(s *jsonschema.Resolved, text string) error {
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		return err
	}
	for _, m := range regexp.MustCompile(`(?:uri|Uri|schema)": "([^"]*)"`).FindAllStringSubmatch(text, -1) {
		if _, err := url.Parse(m[1]); err != nil {
			return err
		}
	}
	return s.Validate(v)
}

func validSARIF(t testing.TB, s *jsonschema.Resolved, text string) {
	t.Helper()
	if err := wrongSARIF(s, text); err != nil {
		t.Errorf("%#v\n%s", err, text)
	}
}

func TestSARIFKeepsToItsSchema(t *testing.T) {
	s := sarifSchema(t)
	for name, r := range samples() {
		t.Run(name, func(t *testing.T) { validSARIF(t, s, render(t, r)["sarif"]) })
	}
	good := render(t, samples()["unreached"])["sarif"]
	for old, bad := range map[string]string{ // the schema must be able to say no
		`"level": "error"`: `"level": "grave"`, `"uri": "app/Cargo.toml"`: `"uri": "app Cargo%zz"`,
	} {
		if wrongSARIF(s, strings.Replace(good, old, bad, 1)) == nil {
			t.Errorf("the schema takes %s", bad)
		}
	}
}

func TestJUnitKeepsToItsSchema(t *testing.T) {
	lint := need.Tool(t, "xmllint")
	check := func(text string) (string, error) {
		file := filepath.Join(t.TempDir(), "x.xml")
		noError(t, os.WriteFile(file, []byte(text), 0o644))
		out, err := exec.Command(lint, "--nonet", "--noout", "--schema", filepath.Join(repository, "testdata", "schema", "junit-10.xsd"), file).CombinedOutput()
		return string(out), err
	}
	for name, r := range samples() {
		text := render(t, r)["xml"]
		if out, err := check(text); err != nil {
			t.Errorf("%s: %s", name, out)
		}
		if _, err := check(strings.Replace(text, "<properties>", "<attributes>", 1)); err == nil {
			t.Error("xmllint takes anything")
		}
	}
}

// TestCIKnowsAFailedRowAgain: a row that failed before its toolkit was chosen replaces the findings and the cases of its last success.
func TestCIKnowsAFailedRowAgain(t *testing.T) {
	good := samples()["compiled"]
	good.Row, good.Origin = "", nil
	bad := good
	bad.Code, bad.Set, bad.Features = 11, nil, nil
	names := regexp.MustCompile(`classname="[^"]*"|<testsuite name="[^"]*"|"automationDetails": \{\s*"id": "[^"]*"`)
	for _, form := range []string{"xml", "sarif"} {
		of := func(r report.Result) string { return names.FindString(render(t, r)[form]) }
		if of(good) != of(bad) || of(good) == "" {
			t.Errorf("%s: %q when it passes, %q when it fails", form, of(good), of(bad))
		}
	}
}

// TestTheEnvelopeIsReadBack: --json is the form in which nothing is lost.
func TestTheEnvelopeIsReadBack(t *testing.T) {
	for _, name := range []string{"compiled", "proven", "unreached"} {
		r := samples()[name]
		list, _, err := report.Read([]byte(render(t, r)["json"]), nil)
		if err != nil || len(list) != 1 || !reflect.DeepEqual(list[0], r) {
			t.Errorf("%s: %v\n%+v\n%+v", name, err, list, r)
		}
	}
	foreign := samples()["compiled"]
	foreign.Row = strings.Repeat("é", 300)
	list, _, err := report.Read([]byte(render(t, foreign)["json"]), nil)
	if err != nil || list[0].Row != strings.Repeat("é", 200) {
		t.Errorf("a long row: %v, %v", list, err)
	}
}

func TestFilesThatAreNoResults(t *testing.T) {
	tests := []struct{ name, data, want string }{
		{"empty", "", "it is empty"},
		{"noise", "\x00\xff\x01", "not JSON"},
		{"cut", `{"schema":"gpubuild/build/1","fin`, "damaged JSON"},
		{"a list", `[1]`, "JSON without a schema"},
		{"another's JSON", `{"a":1}`, "without a schema"},
		{"another's schema", `{"schema":"acme/build/1"}`, "not gpubuild's"},
		{"a later schema", `{"schema":"gpubuild/build/2","result":{}}`, "this gpubuild reads gpubuild/build/1"},
		{"an answer without a result", `{"schema":"gpubuild/scan/1","ok":true,"findings":[]}`, `"scan" holds no result`},
		{"a result of nothing", `{"schema":"gpubuild/build/1","result":{}}`, "neither what was done nor when"},
		{"a result of another shape", `{"schema":"gpubuild/build/1","result":[1]}`, "cannot be read"},
		{"a history of noise", `{"schema":"gpubuild/history/1","results":[[1]]}`, "without a schema"},
		{"HTML", `<html><body>404</body></html>`, "not JSON"},
		{"JUnit", `<testsuites/>`, "not JSON"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, _, err := report.Read([]byte(tt.data), nil)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
}

func TestFingerprintsAreStable(t *testing.T) {
	print := func(fs ...finding.Finding) []string {
		data, err := report.Result{Verb: "build", Findings: fs}.SARIF("Cargo.toml")
		noError(t, err)
		var log struct {
			Runs []struct {
				Results []struct {
					Fingerprints map[string]string `json:"partialFingerprints"`
				} `json:"results"`
			} `json:"runs"`
		}
		noError(t, json.Unmarshal(data, &log))
		var out []string
		for _, r := range log.Runs[0].Results {
			for _, v := range r.Fingerprints {
				out = append(out, v)
			}
		}
		return out
	}
	f := finding.Finding{ID: "features.unreached", Severity: "error", Message: "cuda does not reach candle-core 0.11.1", Path: "a/Cargo.toml", Line: 12}
	moved, newer, other := f, f, f
	moved.Line, newer.Message, other.Path = 40, "cuda does not reach candle-core 0.12.0", "b/Cargo.toml"
	one := print(f)[0]
	if print(moved)[0] != one || print(newer)[0] != one {
		t.Error("a line moved or a version changed, and it is another finding")
	}
	if print(other)[0] == one {
		t.Error("two files have one fingerprint")
	}
	if two := print(f, moved); two[0] == two[1] {
		t.Error("two findings of one file have one fingerprint")
	}
}

// command is one line as GitHub's runner reads it (actions/runner, src/Runner.Common/ActionCommand.cs, TryParseV2 and UnescapeProperty).
type command struct {
	name, data string
	properties map[string]string
}

func runnerReads(line string) (command, bool) {
	rest, ok := strings.CutPrefix(strings.TrimLeftFunc(line, unicode.IsSpace), "::")
	if !ok {
		return command{}, false
	}
	info, data, ok := strings.Cut(rest, "::")
	if !ok {
		return command{}, false
	}
	name, list, _ := strings.Cut(info, " ")
	c := command{name: name, properties: map[string]string{}, data: strings.NewReplacer("%0D", "\r", "%0A", "\n").Replace(data)}
	c.data = strings.ReplaceAll(c.data, "%25", "%")
	for _, p := range strings.Split(list, ",") {
		if k, v, ok := strings.Cut(p, "="); ok {
			v = strings.NewReplacer("%0D", "\r", "%0A", "\n", "%3A", ":", "%2C", ",").Replace(v)
			c.properties[k] = strings.ReplaceAll(v, "%25", "%")
		}
	}
	return c, true
}

func TestAnnotationsKeepToTheLimits(t *testing.T) {
	many := func(severity string, n int) []finding.Finding {
		var out []finding.Finding
		for i := range n {
			out = append(out, finding.Finding{ID: "x.y", Severity: severity, Message: fmt.Sprint(severity, i)})
		}
		return out
	}
	tests := []struct {
		name                    string
		errors, warnings, notes int
		wantE, wantW, wantN     int
		more                    string
	}{
		{"none", 0, 0, 0, 0, 0, 0, ""},
		{"just full", 9, 9, 9, 9, 9, 9, ""},
		{"too many errors", 13, 0, 0, 9, 0, 1, "4 more in the step summary"},
		{"too many of each", 11, 12, 15, 9, 9, 10, "11 more in the step summary"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			text := report.Annotations(append(append(many("note", tt.notes), many("warning", tt.warnings)...), many("error", tt.errors)...))
			got := map[string]int{}
			last := command{}
			for _, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
				if c, ok := runnerReads(line); ok {
					got[c.name]++
					last = c
				}
			}
			if got["error"] != tt.wantE || got["warning"] != tt.wantW || got["notice"] != tt.wantN {
				t.Errorf("%v", got)
			}
			if tt.more != "" && last.data != tt.more || tt.more == "" && strings.Contains(text, "more in") {
				t.Errorf("%q", last.data)
			}
		})
	}
}

func TestSummaryKeepsToItsRoom(t *testing.T) {
	r := samples()["unreached"]
	for i := range 2000 {
		r.Findings = append(r.Findings, finding.Finding{ID: "x.y", Severity: "warning", Message: fmt.Sprint("finding ", i, " ", strings.Repeat("x", 900))})
	}
	whole := r.Summary(1 << 20)
	if len(whole) > 1<<20 || len(whole) < 1<<20-3000 {
		t.Errorf("%d bytes", len(whole))
	}
	if !strings.Contains(whole, "lines more, for which there is no room") || !strings.Contains(whole, "app/Cargo") {
		t.Error("it does not say what was left out, or begins with what matters least")
	}
	for _, room := range []int{0, 10, 200, 1000} {
		if n := len(r.Summary(room)); n > room {
			t.Errorf("%d bytes in a room of %d", n, room)
		}
	}
	if r.Summary(-1<<20) != "" {
		t.Error("there is room in a summary that is over full")
	}
}

// TestQuotedTextIsNoCommand: what a build script or a manifest says must not steer the workflow.
func TestQuotedTextIsNoCommand(t *testing.T) {
	var err bytes.Buffer
	s := &console.Shell{Err: &err, Guarded: true}
	for _, text := range []string{"::stop-commands::x", "a\n \t::error::x", "a\r::add-mask::x", "b ##[error]x", "a\u00a0\n\u00a0::error::x"} {
		s.Warning("%s", "q\n"+text)
		s.Finding(finding.Finding{ID: "x", Severity: "error", Message: "m\n" + text, Fix: text})
	}
	s.Status("Fine", "%s", "std::vector keeps its colons")
	for _, line := range strings.FieldsFunc(err.String(), func(r rune) bool { return r == '\n' || r == '\r' }) {
		if c, ok := runnerReads(line); ok {
			t.Errorf("%q is read as %+v", line, c)
		}
		if strings.Contains(line, "##[") {
			t.Errorf("%q is read by the runner's older form", line)
		}
	}
	if !strings.Contains(err.String(), "std::vector") {
		t.Error("harmless colons were touched")
	}
	err.Reset()
	(&console.Shell{Err: &err}).Note("\n::x::y")
	if !strings.Contains(err.String(), "\n::x::y") {
		t.Error("text is changed where no runner reads")
	}
}

func TestRedact(t *testing.T) {
	hash := func(words ...string) string { return receipt.Hidden(words)[0] }
	own := cargo.OwnFlags{"--gpu-arch": cargo.Value, "--gpu-retry-lost": cargo.Value, "--gpu-send-env": cargo.Value, "--gpu-prove": cargo.Optional, "--gpu-with-args": cargo.Switch}
	tests := []struct{ words, want []string }{
		{[]string{"build", "--config", `registries.x.token="hunter2"`, `--config=env.KEY="hunter2"`, "--config", "file.toml", "-p", "app"},
			[]string{"build", "--config", "registries.x.token=…", "--config=env.KEY=…", "--config", "file.toml", "-p", "app"}},
		{[]string{"--config", `a.token="hunter2"`, "build", "--config", "b=1"}, []string{"--config", "a.token=…", "build", "--config", "b=…"}},
		{[]string{"run", "-p", "app", "--", "--api-key", "hunter2"}, []string{"run", "-p", "app", "--", hash("--api-key", "hunter2")}},
		{[]string{"run", "--release", "hunter2", "--", "x"}, []string{"run", "--release", hash("hunter2", "--", "x")}},
		{[]string{"+nightly", "run", "--gpu-arch", "sm_90", "hunter2"}, []string{"+nightly", "run", "--gpu-arch", "sm_90", hash("hunter2")}},
		{[]string{"run", "--gpu-retry-lost", "1", "--bin", "a"}, []string{"run", "--gpu-retry-lost", "1", "--bin", "a"}},
		{[]string{"build", "--gpu-prove=--key hunter2"}, []string{"build", "--gpu-prove=" + hash("--key hunter2")}},
		{[]string{"run", "--gpu-with-args", "--", "hunter2"}, []string{"run", "--gpu-with-args", "--", "hunter2"}},
		{[]string{"run", "--", "--gpu-with-args"}, []string{"run", "--", hash("--gpu-with-args")}},
		{[]string{"run", "--"}, []string{"run", "--"}},
		{[]string{"install", "--git=https://al:hunter2@example.org/x?a@b", "app"}, []string{"install", "--git=https://…@example.org/x?a@b", "app"}},
		{[]string{"install", "--git", "https://example.org/x?token=hunter2000", "app"}, []string{"install", "--git", "https://example.org/x?…", "app"}},
		{[]string{"run", "--gpu-send-env", "TOK=hunter2", "--gpu-send-env=TOK=hunter2"}, []string{"run", "--gpu-send-env", "TOK=…", "--gpu-send-env=TOK=…"}},
		{[]string{"test", "name", "--", "hunter2"}, []string{"test", "name", "--", hash("hunter2")}},
		{[]string{"plugin", "hunter2", "--gpu-arch=sm_90", "--key=hunter2"}, []string{"plugin", hash("hunter2"), "--gpu-arch=sm_90", hash("--key=hunter2")}},
		{[]string{"run", "--gpu-bogus", "hunter2"}, []string{"run", hash("--gpu-bogus", "hunter2")}},
		{[]string{"--gpu-bogus", "run", "hunter2"}, []string{hash("--gpu-bogus", "run", "hunter2")}},
	}
	for _, tt := range tests {
		line, _, err := cargo.Split(tt.words, own)
		if err != nil && !slices.Contains(tt.words, "--gpu-bogus") {
			t.Fatal(err)
		}
		parts := line.Parts()
		if err != nil {
			parts = nil
		}
		got := report.Redact(tt.words, parts)
		if !reflect.DeepEqual(got, append([]string{"gpubuild"}, tt.want...)) {
			t.Errorf("%q: got %q", tt.words, got)
		}
	}
}

// FuzzEscaping: whatever stands in a result, each form keeps the structure that it has with harmless words, and gives the words back where its format can.
func FuzzEscaping(f *testing.F) {
	schema := sarifSchema(f)
	for _, s := range []string{"plain", nasty, "\n::error::x", "a::b", "%0A%25", "<script>", "]]>", "]]", "\x00\x01\x1f\x7f\u0085", "\xff\xfe\xed\xa0\x80", "|\\|", "`", "\\", "\ufffe\uffff", "\r", "  ::set-output name=a::b", "://", "a b:c", "//host/x", "-->", "<!--", "\u2028", "1. x", "---", "===", "&#x3c;", strings.Repeat("é", 2100)} {
		f.Add(s)
	}
	make := func(s string) report.Result {
		r := report.Result{Verb: "run", Command: []string{"gpubuild"}, At: began} // small: what cannot change costs time
		r.Row, r.Code, r.Project = "row "+s, 21, s
		r.Findings = []finding.Finding{{ID: "proof." + s, Severity: "error", Message: "m " + s, Path: "d/" + s, Line: 3, Fix: "f " + s, Evidence: s}}
		r.Checks = []report.Check{{ID: "proof", Name: "n" + s, State: report.Failed, Message: "m " + s, Detail: "d " + s}, {ID: "reach", State: report.Passed, Message: "m " + s}}
		r.Programs = []report.Program{{Name: "p" + s, Path: s, Code: "c " + s, Proof: &report.Proof{Verdict: verify.NotUsed.String(), Why: "w " + s, Device: "d " + s, UUID: "u" + s}}}
		return r
	}
	calm := render(f, make("x"))
	xmlOfCalm, markdownOfCalm := xmlShape(f, calm["xml"]), htmlTags(f, calm["md"])
	f.Fuzz(func(t *testing.T, s string) {
		got := render(t, make(s))

		validSARIF(t, schema, got["sarif"])
		if _, _, err := report.Read([]byte(got["json"]), nil); err != nil {
			t.Errorf("the envelope: %v", err)
		}

		// annotations: one line a finding, one command, with no other property
		text := strings.TrimSuffix(got["annotations.txt"], "\n")
		if strings.ContainsAny(text, "\n\r") {
			t.Errorf("an annotation has two lines: %q", text)
		}
		c, ok := runnerReads(text)
		if !ok || c.name != "error" || len(c.properties) != 3 || c.properties["line"] != "3" || c.properties["title"] != report.Sanitize("gpubuild: proof."+s) || c.properties["file"] != report.Sanitize("d/"+s) {
			t.Errorf("read as %+v", c)
		}
		if want := report.SanitizeLines("m "+s) + "\nhint: " + report.SanitizeLines("f "+s); len(want) < 4000 && c.data != want {
			t.Errorf("the message is read as %q, want %q", c.data, want)
		}

		// XML: the same elements and attributes
		if a, b := xmlShape(t, got["xml"]), xmlOfCalm; a != b {
			t.Errorf("the shape of the XML is %s, want %s", a, b)
		}
		// Markdown: the same elements
		if a, b := htmlTags(t, got["md"]), markdownOfCalm; a != b {
			t.Errorf("the shape of the Markdown is\n%s, want\n%s\n%s", a, b, got["md"])
		}
	})
}

// xmlShape lists elements and attribute names in order.
func xmlShape(t testing.TB, text string) string {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(text))
	var b strings.Builder
	for {
		tok, err := d.Token()
		if tok == nil {
			if err.Error() != "EOF" {
				t.Fatalf("%v in %s", err, text)
			}
			return b.String()
		}
		switch e := tok.(type) {
		case xml.StartElement:
			b.WriteString("<" + e.Name.Local)
			for _, a := range e.Attr {
				if a.Value != "" {
					b.WriteString(" " + a.Name.Local)
				}
			}
		case xml.EndElement:
			b.WriteString(">")
		case xml.Comment, xml.ProcInst, xml.Directive:
			if p, ok := e.(xml.ProcInst); !ok || p.Target != "xml" {
				t.Errorf("foreign %T", e)
			}
		}
	}
}

var gitHub = sync.OnceValue(func() goldmark.Markdown {
	return goldmark.New(goldmark.WithExtensions(extension.GFM), goldmark.WithRendererOptions(html.WithUnsafe()))
})

// htmlTags renders Markdown as GitHub does (tables, strike-through, bare links, raw HTML passes) and lists the tags.
func htmlTags(t testing.TB, md string) string {
	t.Helper()
	var out bytes.Buffer
	noError(t, gitHub().Convert([]byte(md), &out))
	var b strings.Builder
	for i, part := range strings.Split(out.String(), "<") {
		if i > 0 {
			tag, _, _ := strings.Cut(part, ">")
			b.WriteString("<" + tag + ">")
		}
	}
	return b.String()
}
