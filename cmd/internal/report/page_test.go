package report_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gpubuild/buildenv/finding"
	"gpubuild/cmd/internal/origin"
	"gpubuild/cmd/internal/report"
	"gpubuild/gpu/verify"
)

// at gives a sample another row, time and set.
func at(r report.Result, row string, when time.Time, change func(*report.Result)) report.Result {
	r.Row, r.At = row, when
	if r.Origin != nil { // each day has its commit and its run
		o, day := *r.Origin, int(when.Sub(began).Hours()/24)
		o.Run, o.Commit, o.Machine = fmt.Sprintf("https://github.com/acme/app/actions/runs/%d", 100+day), fmt.Sprintf("%09x%031d", 0xabc000000+day, 0), "gpu-node-7"
		r.Origin = &o
	}
	if r.Set != nil {
		set := *r.Set
		r.Set = &set
	}
	r.Checks = append([]report.Check{}, r.Checks...)
	r.Programs = append([]report.Program{}, r.Programs...)
	for i := range r.Programs {
		if r.Programs[i].Proof != nil {
			p := *r.Programs[i].Proof
			r.Programs[i].Proof = &p
		}
	}
	if change != nil {
		change(&r)
	}
	return r
}

func observed(list ...report.Result) []report.Observation {
	var out []report.Observation
	for i, r := range list {
		out = append(out, report.Observation{File: fmt.Sprintf("results/%d.json", i), Result: r})
	}
	return out
}

// cpu makes of a proven result one that ran on the CPU.
func cpu(r *report.Result) {
	r.Code = 20
	r.Programs[0].Proof = &report.Proof{Verdict: verify.NotUsed.String(), Why: "nothing was launched: it ran on the CPU"}
}

func fails(check, message string) func(*report.Result) {
	return func(r *report.Result) {
		r.Code = 101
		for i := range r.Checks {
			if r.Checks[i].ID == check {
				r.Checks[i].State, r.Checks[i].Message = report.Failed, message
			}
		}
		r.Programs = nil
	}
}

func TestRowsAreJoined(t *testing.T) {
	s := samples()
	day := func(n int) time.Time { return began.AddDate(0, 0, n) }
	receipt := observed(at(s["proven"], "r", day(1), nil))[0]
	receipt.Receipt = true
	tests := []struct {
		name    string
		told    []report.Observation
		status  report.Status
		since   time.Time
		results int
	}{
		{"built once, and nothing proven", observed(at(s["compiled"], "r", day(0), nil)), "no-proof", day(0), 1},
		{"rustc failed", observed(at(s["compiled"], "r", day(0), func(r *report.Result) { r.Verb, r.Checks, r.Code = "rustc", nil, 101 })), "failed", day(0), 1},
		{"built, then proven by prove of the same row", observed(at(s["compiled"], "r", day(0), nil), at(s["proven"], "r", day(1), func(r *report.Result) { r.Verb, r.Checks = "prove", r.Checks[4:] })),
			"proven", day(1), 2},
		{"since the first of an unbroken line", observed(at(s["proven"], "r", day(3), nil), at(s["proven"], "r", day(1), nil), at(s["proven"], "r", day(2), nil)), "proven", day(1), 3},
		{"a break begins anew", observed(at(s["proven"], "r", day(1), nil), at(s["proven"], "r", day(2), cpu), at(s["proven"], "r", day(3), nil)), "proven", day(3), 3},
		{"it falls back", observed(at(s["proven"], "r", day(1), nil), at(s["proven"], "r", day(2), cpu)), "cpu", day(2), 2},
		{"it was proven and does not build now", observed(at(s["proven"], "r", day(1), nil), at(s["compiled"], "r", day(2), fails("build", "cargo ended with 101"))), "failed", day(2), 2},
		{"a feature does not reach", observed(at(s["unreached"], "r", day(1), nil)), "failed", day(1), 1},
		{"a receipt and JSON of one run are one result", append(observed(at(s["proven"], "r", day(1), func(r *report.Result) { r.Programs[0].Proof.Device = "of JSON" })), receipt), "proven", day(1), 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			rows := report.Join(tt.told, nil)
			if len(rows) != 1 {
				t.Fatalf("%d rows", len(rows))
			}
			if r := rows[0]; r.Status != tt.status || !r.Since.Equal(tt.since) || r.Results != tt.results || r.Device == "of JSON" {
				t.Errorf("%+v", r)
			}
		})
	}
}

// TestSinceWhichCommit: the last commit that was good, the first that was not, the machine, and whether it comes and goes.
func TestSinceWhichCommit(t *testing.T) {
	t.Parallel()
	proven, commit := samples()["proven"], func(day int) string { return fmt.Sprintf("%09x%031d", 0xabc000000+day, 0) }
	row := func(bad ...int) report.Row {
		var all []report.Result
		for day := range 30 {
			change := cpu
			if !slices.Contains(bad, day) {
				change = nil
			}
			all = append(all, at(proven, "r", began.AddDate(0, 0, day), change))
		}
		return report.Join(observed(all...), nil)[0]
	}
	broke := row(28, 29)
	if broke.Status != report.StatusCPU || broke.Before != commit(27) || broke.First != commit(28) || broke.Machine != "gpu-node-7" || broke.Flaky {
		t.Errorf("it broke: %+v", broke)
	}
	if got := report.Table([]report.Row{broke}); !strings.Contains(got, "(abc00001b..abc00001c, on gpu-node-7): ") {
		t.Errorf("the table says %q", got)
	}
	flaky := row(11, 20)
	if flaky.Status != report.StatusProven || !flaky.Flaky || flaky.Failed != 2 || flaky.Runs != 30 {
		t.Errorf("it comes and goes: %+v", flaky)
	}
	for _, r := range []report.Row{broke, flaky} {
		data, err := report.HTML([]report.Row{r}, 1, "v1")
		noError(t, err)
		page, _, _ := strings.Cut(string(data), "<details>")
		want := "failed 2 of the last 30"
		if !r.Flaky {
			want = "<small>abc00001b..abc00001c</small>"
		}
		if !strings.Contains(page, want) {
			t.Errorf("before the details, the page does not say %s", want)
		}
	}
	if steady := row(); steady.Flaky || steady.Failed != 0 {
		t.Errorf("it never failed: %+v", steady)
	}
}

// TestChecksHaveRows: features, lint, doctor and audit are green rows if they pass, and red ones with the reason if they do not. In one run of
// CI a failure of theirs is not hidden by a build that came later.
func TestChecksHaveRows(t *testing.T) {
	t.Parallel()
	for _, verb := range []string{"features", "features-lint", "doctor", "audit"} {
		r := report.Result{Verb: verb, At: began, Row: verb, Checks: []report.Check{{ID: "audit", Name: "nodevice", State: report.Passed}}}
		if got := report.Join(observed(r), nil)[0]; got.Status != report.StatusChecked {
			t.Errorf("%s passed: %s", verb, got.Status)
		}
		r.Code, r.Checks[0].State, r.Checks[0].Message = 20, report.Failed, "it fell back"
		if got := report.Join(observed(r), nil)[0]; got.Status != report.StatusFailed || got.Why != "audit nodevice: it fell back" {
			t.Errorf("%s failed: %+v", verb, got)
		}
		later := at(samples()["compiled"], verb, began.Add(time.Hour), nil)
		r.Origin = later.Origin
		if got := report.Join(observed(r, later), nil)[0]; got.Status != report.StatusFailed {
			t.Errorf("%s failed, and a later build of the same run hides it: %+v", verb, got)
		}
	}
	tested := at(samples()["compiled"], "t", began, nil)
	tested.Verb, tested.Code = "test", 101
	tested.Checks = append(tested.Checks, report.Check{ID: report.CheckRun, State: report.Failed, Message: "exit status: 101"})
	if got := report.Join(observed(tested), nil)[0]; got.Status != report.StatusFailed {
		t.Errorf("tests that failed: %+v", got)
	}
}

func TestRowsWithoutAResultAreThere(t *testing.T) {
	expected := []string{"a", "b"}
	list := observed(at(samples()["proven"], "b", began, nil), at(samples()["proven"], "a", began, nil), at(samples()["proven"], "gone", began, nil))
	list[1].Earlier, list[2].Earlier = true, true // an earlier run's result says nothing of this one
	rows := report.Join(list, expected)
	if len(rows) != 3 || rows[1].ID != "gone" || !rows[1].Since.IsZero() {
		t.Errorf("of earlier runs: %+v", rows)
	}
	if rows = slices.Delete(rows, 1, 2); len(rows) != 2 || rows[0].ID != "a" || rows[0].Status != report.StatusNone || rows[1].Status != report.StatusProven {
		t.Errorf("%+v", rows)
	}
	if none := report.WithoutResult(rows, expected); len(none) != 1 || none[0] != "a" {
		t.Errorf("without a result: %v", none)
	}
}

// TestProjectsHaveRowsOfTheirOwn: also where the jobs of two projects have one name. What names no project is of the only one. A receipt names no
// machine, and the other file about its run does.
func TestProjectsHaveRowsOfTheirOwn(t *testing.T) {
	t.Parallel()
	s := samples()
	of := func(name, sample string, after int) report.Result {
		return at(s[sample], "cuda", began.AddDate(0, 0, after), func(r *report.Result) { r.Name = name })
	}
	receipt := observed(of("", "proven", 2))[0]
	receipt.Receipt, receipt.Result.Origin = true, &origin.Origin{}
	one := report.Join(append(observed(of("app", "compiled", 1), of("", "proven", 2)), receipt), nil)
	if len(one) != 1 || one[0].Project != "app" || one[0].Status != report.StatusProven || one[0].Results != 2 || one[0].Machine != "gpu-node-7" || !one[0].Receipt {
		t.Errorf("one project: %+v", one)
	}
	data, err := report.HTML(one, 3, "v1")
	noError(t, err)
	if !strings.Contains(string(data), "<h1>app: GPU builds</h1>") || strings.Contains(string(data), "project app") {
		t.Errorf("the page of one project: %s", data)
	}
	list := observed(of("app", "compiled", 1), of("tool", "unreached", 1))
	two := report.Join(list, []string{"cuda"})
	if len(two) != 2 || two[0].Project != "tool" || two[0].Status != report.StatusFailed || two[1].Project != "app" {
		t.Errorf("two projects: %+v", two)
	}
	data, err = report.HTML(two, 2, "v1")
	noError(t, err)
	if !strings.Contains(string(data), "<h1>GPU builds</h1>") || !strings.Contains(string(data), "project app") || !strings.Contains(string(data), "project tool") {
		t.Errorf("the page of two projects: %s", data)
	}
	program := func(name string) report.Result {
		return at(s["proven"], "cuda", began, func(r *report.Result) { r.Name, r.Programs[0].Name = "", name })
	}
	if rows := report.Join(observed(program("train"), program("serve"), program("train")), nil); len(rows) != 2 ||
		rows[0].Project != "serve" || rows[1].Project != "train" {
		t.Errorf("two programs of no project: %+v", rows)
	}
	list[0].Earlier = true
	if none := report.WithoutResult(report.Join(list, []string{"cuda"}), []string{"cuda"}); none != nil {
		t.Errorf("the row has a result, of the other project: %q", none)
	}
}

// matrix is a page's worth of rows of every kind.
func matrix() []report.Row {
	s := samples()
	day := func(n int) time.Time { return began.AddDate(0, 0, n) }
	var told []report.Observation
	add := func(r ...report.Result) { told = append(told, observed(r...)...) }
	add(at(s["compiled"], "cuda+cudnn-cuda13.4-sm_90-linux-x86_64-release", day(-3), nil), at(s["proven"], "cuda+cudnn-cuda13.4-sm_90-linux-x86_64-release", day(0), func(r *report.Result) { r.Set.Toolkit = "13.5.10" }))
	told[len(told)-1].Receipt = true
	add(at(s["compiled"], "cuda-cuda13.3-sm_80-linux-x86_64-dev", day(0), func(r *report.Result) { r.Set.Toolkit, r.Set.CUDNN, r.Set.Arch = "13.3.33", "", "sm_80" }))
	add(at(s["proven"], "prove-a100-cuda-cuda13.4-sm_80-linux-x86_64-dev", day(-1), func(r *report.Result) { r.Programs[0].Proof.Device = "NVIDIA A100-SXM4-80GB" }),
		at(s["proven"], "prove-a100-cuda-cuda13.4-sm_80-linux-x86_64-dev", day(0), cpu))
	add(at(s["compiled"], "cuda-cuda13.4-sm_120-windows-x86_64-release", day(0), fails("toolchain", "cl.exe 14.51 is newer than CUDA 13.3 accepts (up to 14.50)")))
	add(at(s["unreached"], "cudnn-cuda13.4-sm_90-linux-arm64-dev", day(0), nil))
	add(at(s["proven"], "prove-h200-cuda-cuda13.4-sm_90-linux-x86_64-dev", day(0), func(r *report.Result) {
		r.Code = 21
		r.Programs[0].Proof = &report.Proof{Verdict: verify.Unproved.String(), Why: "this driver is a stand-in"}
	}))
	add(at(s["hostile"], nasty, day(0), nil))
	for i := range 4 {
		add(at(s["proven"], fmt.Sprintf("prove-l4-cuda-cuda13.%d-sm_89-linux-x86_64-dev", i+1), day(-i), func(r *report.Result) {
			r.Programs[0].Proof.Device, r.Set.Arch = "NVIDIA L4", "sm_89"
		}))
	}
	return report.Join(told, []string{"prove-dgx-cuda-cuda13.4-sm_100-linux-arm64-dev"})
}

func writePage(t testing.TB, rows []report.Row, files int) string {
	t.Helper()
	data, err := report.HTML(rows, files, "v1.2.3")
	noError(t, err)
	file := filepath.Join(t.TempDir(), "report.html")
	noError(t, os.WriteFile(file, data, 0o644))
	return file
}

func TestPageIsGolden(t *testing.T) {
	data, err := report.HTML(matrix(), 12, "v1.2.3")
	noError(t, err)
	golden(t, filepath.Join(repository, "testdata", "golden", "render", "page.html"), string(data))
	golden(t, filepath.Join(repository, "testdata", "golden", "render", "table.txt"), report.Table(matrix()))
}

// FuzzPage: whatever the files say, the page has the elements that it has for harmless words.
func FuzzPage(f *testing.F) {
	for _, s := range []string{nasty, "</script>", "</style>", "<!--", "\" onload=\"x", "' x='", "{{.}}", "\xff", "\x00", "&lt;"} {
		f.Add(s)
	}
	tags := func(t testing.TB, s string) (int, int) {
		r := samples()["hostile"]
		r.Origin = &origin.Origin{Commit: "x" + s, Branch: "x" + s, Run: "https://x" + s}
		r.Row, r.Features, r.Set, r.Gpubuild = "x"+s, &report.Features{Asked: []string{"x" + s}}, &report.Set{Toolkit: "x" + s, Driver: "x" + s, Arch: "x" + s, Compiler: "x" + s, CUDNN: "x" + s}, "x"+s
		r.Findings = []finding.Finding{{ID: "x" + s, Severity: "error", Message: "x" + s, Path: "x" + s, Fix: "x" + s}}
		r.Checks = []report.Check{{ID: report.CheckBuild, State: report.Failed, Message: "x" + s}, {ID: "x" + s, Name: "x" + s, State: report.Passed, Message: "x" + s}}
		r.Programs = []report.Program{{Name: "x" + s, Code: "x" + s, Proof: &report.Proof{Verdict: verify.NotUsed.String(), Why: "x" + s, Device: "x" + s, UUID: "x" + s, Lines: []string{"x" + s}}}}
		data, err := report.HTML(report.Join([]report.Observation{{File: "x" + s, Result: r}}, []string{"y" + s}), 1, "x"+s)
		noError(t, err)
		text := string(data)
		return strings.Count(text, "<"), strings.Count(text, "\"")
	}
	wantTags, wantQuotes := tags(f, "")
	f.Fuzz(func(t *testing.T, s string) {
		if gotTags, gotQuotes := tags(t, s); gotTags != wantTags || gotQuotes != wantQuotes {
			t.Errorf("%d tags and %d quotes, want %d and %d", gotTags, gotQuotes, wantTags, wantQuotes)
		}
	})
}

// TestPageInABrowser loads the page as readers do: desk and phone, light and dark, with scripts and without.
func TestPageInABrowser(t *testing.T) {
	b := openBrowser(t)
	rows := matrix()
	file := writePage(t, rows, 12)
	backs := map[string]bool{}
	for _, width := range []int{1200, 820, 390, 320} {
		for _, scheme := range []string{"light", "dark"} {
			name := fmt.Sprintf("%s-%d", scheme, width)
			b.open(file, width, scheme)
			if bad := b.complaints(file); len(bad) > 0 {
				t.Errorf("%s: %q", name, bad)
			}
			var page struct {
				Rows, Scripts, Foreign, Tall int
				First, Matches, Pwned        string
			}
			b.eval(`({rows: document.querySelectorAll("tbody").length, scripts: document.scripts.length, foreign: document.querySelectorAll("img,iframe,link,object").length,
				tall: [...document.querySelectorAll("tbody tr:first-child > *")].filter(c => c.firstElementChild && c.lastElementChild.getBoundingClientRect().bottom - c.firstElementChild.getBoundingClientRect().top > 6.5 * 22).length,
				first: document.querySelector("tbody th").firstChild.textContent, matches: String(matchMedia("(prefers-color-scheme: dark)").matches), pwned: typeof alertRan})`, &page)
			if page.Rows != len(rows) || page.Scripts != 0 || page.Foreign != 0 || page.Tall != 0 && width == 1200 || page.Pwned != "undefined" || page.First != report.Sanitize(rows[0].ID) || page.Matches != fmt.Sprint(scheme == "dark") {
				t.Errorf("%s: %+v", name, page)
			}
			b.picture(name)
			for _, open := range []bool{false, true} { // and with every detail unfolded
				if open {
					var n int
					b.eval(`document.querySelectorAll("details").forEach(d => d.open = true), 0`, &n)
				}
				var out []string
				if b.eval(overflows, &out); len(out) > 0 {
					t.Errorf("%s: overflow: %q", name, out)
				}
				var seen struct {
					Looked int
					Bad    []string
					Back   string
				}
				b.eval(contrasts, &seen)
				if len(seen.Bad) > 0 || seen.Looked < 40 {
					t.Errorf("%s: %d texts looked at; too little contrast: %q", name, seen.Looked, seen.Bad)
				}
				backs[seen.Back] = true
			}
			b.picture(name + "-open")
		}
	}
	if len(backs) != 2 {
		t.Errorf("light and dark have %d backgrounds", len(backs))
	}
}

// BenchmarkPage opens a page of 1,000 rows with 50 results each in a real browser. ms/page is from the request to the second frame after loading, as a reader waits; cpu-ms/page is
// the processor time of the page's main thread, which does not grow with what else the machine does.
func BenchmarkPage(b *testing.B) {
	s := samples()
	var told []report.Observation
	for i := range 1000 {
		id := fmt.Sprintf("cuda+cudnn-cuda13.%d-sm_%d-linux-x86_64-release-%d", i%6, 75+i%50, i)
		for commit := range 50 {
			kind := []string{"proven", "compiled"}[(i+commit/7)%2]
			told = append(told, observed(at(s[kind], id, began.Add(time.Duration(commit)*time.Hour), func(r *report.Result) {
				r.Origin = &origin.Origin{Commit: fmt.Sprintf("%040x", commit), Run: fmt.Sprint("https://example.org/o/r/actions/runs/", commit)}
			}))...)
		}
	}
	rows := report.Join(told, nil)
	file := writePage(b, rows, len(told))
	fi, err := os.Stat(file)
	noError(b, err)
	br := openBrowser(b)
	br.ask("Performance.enable", map[string]any{"timeDomain": "threadTicks"}, nil)
	busy := func() float64 {
		var m struct {
			Metrics []struct {
				Name  string
				Value float64
			}
		}
		br.ask("Performance.getMetrics", nil, &m)
		for _, e := range m.Metrics {
			if e.Name == "TaskDuration" {
				return e.Value * 1000
			}
		}
		b.Fatal("the browser does not tell how long it worked")
		return 0
	}
	var waited, worked float64
	for range b.N {
		br.open("/dev/null", 1280, "light")
		before, start := busy(), time.Now()
		br.open(file, 1280, "light")
		var done bool
		br.eval(`new Promise(r => requestAnimationFrame(() => requestAnimationFrame(() => r(true))))`, &done)
		waited += time.Since(start).Seconds() * 1000
		worked += busy() - before
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(waited/float64(b.N), "ms/page")
	b.ReportMetric(worked/float64(b.N), "cpu-ms/page")
	b.ReportMetric(float64(fi.Size())/1000, "kB")
}
