package proof

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/hosttest"
	"gpubuild/buildenv/local"
	"gpubuild/cmd/internal/audit"
	"gpubuild/cmd/internal/cargorun"
	"gpubuild/cmd/internal/config"
	"gpubuild/cmd/internal/console"
	"gpubuild/cmd/internal/session"
	"gpubuild/gpu"
	"gpubuild/gpu/fatbin"
	"gpubuild/gpu/verify"
	"gpubuild/toolchain/cargo"
)

// TestWhatIsAsked: of a command line and a configuration, which proof is asked for: of which kernel, with which exit code, until it is proven;
// whether other kernels are an error, and whether none is one, here and in CI.
func TestWhatIsAsked(t *testing.T) {
	t.Parallel()
	table := &config.Prove{Bin: "server", Kernel: config.Kernels{"gemm"}, ExpectExit: 3, UntilProved: true}
	open := &config.Prove{Kernel: config.Kernels{"gemm"}, ExpectExit: 3, UntilProved: true}
	marks := &config.Marked{GPU: []string{"gpu"}, Kernel: config.Kernels{"relu"}}
	server := []cargorun.Program{{Name: "server", Kind: "bin"}}
	own := regexp.MustCompile("mine")
	gpu := cargorun.Target{Package: "app", Kind: "test", Name: "gpu"}
	for story, tt := range map[string]struct {
		words    string
		prove    *config.Prove
		marks    *config.Marked
		programs []cargorun.Program
		o        Options
		targets  []cargorun.Target
		kernel   string
		exit     int
		until    bool
		match    bool // other kernels are an error
		requires bool // in CI none is one
	}{
		"a plain run":                   {words: "run"},
		"a required proof":              {words: "run", o: Options{Required: true}, match: true, requires: true},
		"the CPU":                       {words: "run", o: Options{ExpectCPU: true}, match: true},
		"a device":                      {words: "run", o: Options{Rules: verify.Rules{Device: "1"}}, match: true},
		"a child":                       {words: "run", o: Options{Rules: verify.Rules{Child: "x"}}, match: true},
		"launches":                      {words: "run", o: Options{Rules: verify.Rules{MinLaunches: 2}}, match: true},
		"a time on the GPU":             {words: "run", o: Options{Rules: verify.Rules{MinTime: 2}}, match: true},
		"a kernel":                      {words: "run", o: Options{Rules: verify.Rules{Kernel: own}}, kernel: "mine", match: true},
		"until it is proven":            {words: "run", o: Options{UntilProved: true}, until: true},
		"a table without a program":     {words: "run", prove: open, kernel: "gemm", exit: 3, until: true, match: true, requires: true},
		"a table, and a flag":           {words: "run", prove: open, o: Options{Rules: verify.Rules{Kernel: own, ExpectExit: 2}, ExitGiven: true}, kernel: "mine", exit: 2, until: true, match: true, requires: true},
		"a table, on the CPU":           {words: "run", prove: open, o: Options{ExpectCPU: true}, kernel: "gemm", exit: 3, match: true},
		"a table, and no GPU is well":   {words: "run", prove: open, o: Options{AllowNoDevice: true}, kernel: "gemm", exit: 3, until: true, match: true},
		"the table's program":           {words: "run", prove: table, programs: server, kernel: "gemm", exit: 3, until: true, match: true, requires: true},
		"another program":               {words: "run", prove: table, programs: []cargorun.Program{{Name: "tool", Kind: "bin"}}},
		"the table's program, unbuilt":  {words: "run --bin server", prove: table, kernel: "gemm", exit: 3, until: true, match: true, requires: true},
		"another program, unbuilt":      {words: "run --bin tool", prove: table},
		"an example, unbuilt":           {words: "run --example tool", prove: table},
		"the program of a build":        {words: "build", prove: table, programs: []cargorun.Program{{Name: "tool", Kind: "bin"}}, kernel: "gemm", exit: 3, until: true},
		"a test, of the run's table":    {words: "test", prove: open},
		"a benchmark, of the run's":     {words: "bench", prove: open},
		"marked tests":                  {words: "test", marks: marks, kernel: "relu", requires: true},
		"marked tests, and a flag":      {words: "test", marks: marks, o: Options{Rules: verify.Rules{Kernel: own}}, kernel: "mine", match: true, requires: true},
		"marked benchmarks":             {words: "bench", marks: marks, kernel: "relu", requires: true},
		"marked tests are of no build":  {words: "build", marks: marks},
		"a list of marked tests":        {words: "test -- --list", marks: marks, kernel: "relu"},
		"the help of marked tests":      {words: "test -- --help", marks: marks, kernel: "relu"},
		"marked tests, by choice":       {words: "test --lib", marks: marks, targets: []cargorun.Target{gpu}, programs: []cargorun.Program{{Name: "app", Package: "app", Kind: "test", Target: "lib"}}, kernel: "relu"},
		"marked tests that are not run": {words: "test", marks: marks, targets: []cargorun.Target{gpu}, programs: []cargorun.Program{{Name: "app", Package: "app", Kind: "test", Target: "lib"}}, kernel: "relu", requires: true},
		"marked tests of another":       {words: "test", marks: marks, targets: []cargorun.Target{gpu}, programs: []cargorun.Program{{Name: "b", Package: "b", Kind: "test", Target: "lib"}}, kernel: "relu"},
	} {
		line, _ := hosttest.Must2(cargo.Split(strings.Fields(tt.words), nil))(t)
		for _, ci := range []string{"", "true"} {
			m := &session.Machine{Host: buildenv.Host{OS: buildenv.Linux, Env: buildenv.NewEnv(buildenv.Linux, []string{"CI=" + ci})}, Shell: &console.Shell{Err: new(bytes.Buffer)}}
			s := &session.Session{Machine: m, Line: line}
			s.Config.Prove.Value = tt.prove
			if tt.marks != nil {
				s.Config.Test.Value, s.Config.Bench.Value = &config.Tested{Marked: *tt.marks}, tt.marks
			}
			r := Request{Session: s, Options: tt.o, Programs: tt.programs, Targets: tt.targets}
			task := r.task("app")
			if (task.Asked.Kernel != "") != (tt.kernel != "") || !strings.Contains(task.Asked.Kernel, tt.kernel) || task.Asked.ExpectExit != tt.exit || task.Until != tt.until {
				t.Errorf("%s: %+v", story, task)
			}
			if r.asksForMatch() != tt.match || r.Requires() != (tt.requires && (ci != "" || tt.o.Required)) {
				t.Errorf("%s, CI=%s: other kernels %v, none %v", story, ci, r.asksForMatch(), r.Requires())
			}
		}
	}
}

// TestTestedPrograms: what was built for tests to call is none of the tested, unless it was started; what cargo does not name is.
func TestTestedPrograms(t *testing.T) {
	t.Parallel()
	programs := []cargorun.Program{{Package: "a", Name: "a", Kind: "test", Target: "lib", Path: "/t/a"}, {Package: "a", Name: "tool", Kind: "bin", Target: "bin", Path: "/t/tool"},
		{Package: "a", Name: "speed", Kind: "bench", Target: "bench", Path: "/t/speed"}}
	proofs := func(paths ...string) (out []Proof) {
		for _, p := range paths {
			out = append(out, Proof{Program: p, Verdict: verify.Verdict{Kind: verify.NotUsed}})
		}
		return out
	}
	for story, tt := range map[string]struct {
		verb   string
		proofs []Proof
		want   string
	}{
		"nothing was started":    {"test", nil, "a×0 speed×0"},
		"tests":                  {"test", proofs("/t/a", "/t/a"), "a×2 speed×0"},
		"a test's own program":   {"test", proofs("/t/a", "/t/tool"), "a×1 tool×1 speed×0"},
		"a doctest":              {"test", proofs("/tmp/x/rust_out", "/tmp/y/rust_out", "/t/a"), "a×1 speed×0 rust_out×2"},
		"a run":                  {"run", proofs("/t/tool"), "tool×1"},
		"a run that did nothing": {"run", nil, ""},
	} {
		m := &session.Machine{Host: buildenv.Host{OS: buildenv.Linux}}
		var got []string
		for _, row := range (Request{Session: &session.Session{Machine: m, Line: cargo.Line{Verb: tt.verb}}, Programs: programs}).tested(tt.proofs, []string{"/t/a"}, false) {
			got = append(got, row.name+"×"+string(rune('0'+row.processes)))
			hosttest.Equal(t, row.listed, (row.name == "a"), story, row.name, "listed")
		}
		hosttest.Equal(t, strings.Join(got, " "), tt.want, story)
	}
	if got := DecisiveProcess([]Proof{{Program: "a", Verdict: verify.Verdict{Kind: verify.Unproved}}, {Program: "b", Verdict: verify.Verdict{Kind: verify.NotUsed}}}); got["a"] != 0 || got["b"] != 1 || len(got) != 2 {
		t.Errorf("%v", got)
	}
}

// TestPrintedVerdict: a reason is given once, every other conflict is, and a proof without a receipt ends with an error if nothing else did.
func TestPrintedVerdict(t *testing.T) {
	t.Parallel()
	var said bytes.Buffer
	m := &session.Machine{Host: buildenv.Host{OS: buildenv.Linux, Cwd: "/w"}, Shell: &console.Shell{Err: &said}}
	printVerdict(m, Proof{Program: "/w/app", Test: "a::b", Verdict: verify.Verdict{Kind: verify.Unproved, Why: "why it is", Lines: []string{"a line"},
		Conflicts: []string{"why it is", "other conflict"}, Notes: []string{"a note"}}})
	text := said.String()
	if strings.Count(text, "why it is") != 1 || strings.Count(text, "other conflict") != 1 || !strings.Contains(text, "a line") || !strings.Contains(text, "a note") ||
		!strings.Contains(text, "app a::b") {
		t.Errorf("%s", text)
	}
	said.Reset()
	printVerdict(m, Proof{Program: "/w/app", Verdict: verify.Verdict{Kind: verify.Proved, Device: "H200", UUID: "GPU-1"}})
	if text := said.String(); !strings.Contains(text, "ran its kernel on H200 (GPU-1)") {
		t.Errorf("%s", text)
	}
	other := exit.Code(3)
	for _, tt := range []struct {
		missing   string
		end, want error
		warned    bool
	}{{"", nil, nil, false}, {"", other, other, false}, {"no receipt", other, other, true}} {
		said.Reset()
		if got := (Proof{NoReceipt: tt.missing}).orNoReceipt(m, tt.end); got != tt.want || (said.Len() > 0) != tt.warned {
			t.Errorf("%q after %v: %v, %s", tt.missing, tt.end, got, said.String())
		}
	}
	if got := (Proof{NoReceipt: "no receipt"}).orNoReceipt(m, nil); got == nil || got.Error() != "no receipt" {
		t.Errorf("%v", got)
	}
}

// TestEndsOfAProgram: which end is the program's own failure.
func TestEndsOfAProgram(t *testing.T) {
	t.Parallel()
	for story, tt := range map[string]struct {
		ran      bool
		end      verify.Exit
		expected int
		bad      bool
		code     int
	}{
		"well":                {true, verify.Exit{}, 0, false, 0},
		"badly":               {true, verify.Exit{Code: 3}, 0, true, 3},
		"as expected":         {true, verify.Exit{Code: 3}, 3, true, 0},
		"by a signal":         {true, verify.Exit{Code: 0, Signal: "SIGKILL"}, 0, true, 0},
		"its time was over":   {true, verify.Exit{TimedOut: true}, 0, true, 0},
		"gpubuild stopped it": {true, verify.Exit{Code: 143, Stopped: true}, 0, false, 0},
		"it did not run":      {false, verify.Exit{Code: 3}, 0, true, 0},
	} {
		p := Proof{Evidence: verify.Evidence{Ran: tt.ran, Exit: tt.end}}
		if p.failed() != tt.bad || failed(p, tt.expected) != tt.code {
			t.Errorf("%s: %v, %d", story, p.failed(), failed(p, tt.expected))
		}
		if end := Outcome(Proof{Verdict: verify.Verdict{Kind: verify.Proved}, Evidence: p.Evidence}, tt.expected, false); !tt.ran && end != nil {
			t.Errorf("%s: its status is the outcome: %v", story, end)
		}
	}
}

// TestListen: what is read of a program, and how. A file is left to it, a pipe is not; stdout is read of tests, and where it is stderr.
func TestListen(t *testing.T) {
	t.Parallel()
	h := hosttest.Must(local.Host())(t)
	open := func(name string) *os.File {
		f := hosttest.Must(os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600))(t)
		t.Cleanup(func() { f.Close() })
		return f
	}
	const fell = "CUDA is not available, falling back to CPU\n"
	for _, verb := range []string{"run", "test", "bench"} {
		var out, shown bytes.Buffer
		l := Listen(&session.Machine{Host: h, Shell: &console.Shell{Err: &shown}}, &out, verb)
		if of := len(l.ears); of != map[string]int{"run": 1, "test": 2, "bench": 2}[verb] || l.Stderr == any(&shown) || (l.Stdout == any(&out)) != (verb == "run") {
			t.Errorf("%s: %d streams are read", verb, of)
		}
		_, err := l.Stderr.Write([]byte(fell))
		if l.End(h); err != nil || shown.String() != fell {
			t.Errorf("%s: %v, %q", verb, err, shown.String())
		}
		for k, noted := range map[verify.Kind]bool{verify.Proved: true, verify.Unproved: true, verify.NotUsed: false, verify.NoDevice: false} {
			var said bytes.Buffer
			if l.NoteWords(&session.Machine{Shell: &console.Shell{Err: &said}}, k); (said.Len() > 0) != noted {
				t.Errorf("%s, %s: %q", verb, k, said.String())
			}
		}
		both := Listen(&session.Machine{Host: h, Shell: &console.Shell{Err: &shown}}, &shown, verb)
		if len(both.ears) != 1 || both.Stdout != both.Stderr {
			t.Errorf("%s: one stream is read as %d", verb, len(both.ears))
		}
	}
	log, null := filepath.Join(t.TempDir(), "log"), open(os.DevNull)
	first, second := open(log), open(log)
	hosttest.Must(first.WriteString("earlier: " + fell))(t)
	l := Listen(&session.Machine{Host: h, Shell: &console.Shell{Err: first}}, second, "test")
	if l.Stderr != any(first) || l.Stdout != any(first) || len(l.ears) != 1 {
		t.Errorf("one file by two names: %d are read", len(l.ears))
	}
	if l.End(h); verify.LineAboutCPU(l.ears[0].Text()) != "" || l.ears[0].unread {
		t.Errorf("what stood in the file before is read: %q", l.ears[0].Text())
	}
	hosttest.OK(t, errors.Join(os.Truncate(log, 3)))
	if l.End(h); !l.ears[0].unread {
		t.Error("a file that was cut is read")
	}
	if _, heard := l.Match(nil); heard {
		t.Error("a file that was cut was heard")
	}
	quiet := Listen(&session.Machine{Host: h, Shell: &console.Shell{Err: null}}, first, "run")
	if quiet.Stderr != any(null) || len(quiet.ears) != 0 {
		t.Errorf("/dev/null is read: %d", len(quiet.ears))
	}
}

// TestLineOfAScan: equal device code is counted, whether its PTX is text or in a fatbin; without any the libraries of CUDA are named.
func TestLineOfAScan(t *testing.T) {
	t.Parallel()
	arch := gpu.Arch{Capability: gpu.Capability{Major: 9}}
	cubin := fatbin.Image{Kind: fatbin.Cubin, Arch: arch, Toolkit: "13.4.92"}
	ptx := fatbin.Image{Kind: fatbin.PTX, Arch: arch, PTXVersion: "9.4", Toolkit: "13.4.92"}
	text, old, bare := ptx, cubin, ptx
	text.Kind, old.Toolkit, bare.PTXVersion = fatbin.PTXText, "", ""
	for want, r := range map[string]fatbin.Report{
		"no device code (code that is made at run time is not seen)":                  {Imports: []string{"libc.so.6", "libcurl.so.4"}, Delayed: []string{"user32.dll"}},
		"no device code; loads libcublas.so.13, nvcuda.dll":                           {Imports: []string{"libc.so.6", "libcublas.so.13"}, Delayed: []string{"nvcuda.dll"}},
		"2 PTX " + arch.String() + " (PTX 9.4)":                                       {Images: []fatbin.Image{ptx, text}},
		"1 PTX " + arch.String():                                                      {Images: []fatbin.Image{bare}, Imports: []string{"libcuda.so.1"}},
		"1 cubin " + arch.String() + ", 2 cubin " + arch.String() + " (nvcc 13.4.92)": {Images: []fatbin.Image{cubin, old, cubin}},
	} {
		if got := Line(&r); !strings.EqualFold(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	for name, want := range map[string]bool{"libcuda.so.1": true, "libcurl.so.4": false, "libnvrtc.so.13": true, "libc.so.6": false, "NVCUDA.dll": true,
		"cublas64_13.dll": true, "nvrtc64_120_0.dll": true, "curl64.dll": false, "foo64_1.dll": false, "cublas64_13.exe": false} {
		hosttest.Equal(t, IsCUDALibrary(name), want, name)
	}
}

// TestShownAudit: what an audit says, its findings and its exit code, by what the modes came to.
func TestShownAudit(t *testing.T) {
	t.Parallel()
	of := func(mode string, k audit.Kind, code int, why string) audit.ModeResult {
		return audit.ModeResult{Mode: mode, What: "what", Kind: k, Code: code, Why: why, Said: "words of " + mode}
	}
	base := of("baseline", audit.Baseline, 0, "it ends well")
	for story, tt := range map[string]struct {
		modes    []audit.ModeResult
		code     int
		findings string
		says     []string
		not      string
	}{
		"honest":                  {[]audit.ModeResult{base, of("a", audit.Honest, 1, "it failed"), of("b", audit.NotReached, 1, "not asked")}, exit.Done, "", []string{"1 kind of failure tried, silent in none of them; not tried: b", "it failed", "not asked", "it ends well"}, "words of"},
		"one cannot be judged":    {[]audit.ModeResult{base, of("a", audit.Honest, 1, "it failed"), of("b", audit.Unchecked, 0, "it checks nothing")}, exit.Done, "", []string{"1 ok, 1 unchecked", "tried, and not known: b"}, "not tried"},
		"it fell back":            {[]audit.ModeResult{base, of("a", audit.Honest, 1, "it failed"), of("b", audit.FellBack, 0, "it ended well")}, exit.NotUsed, "audit.fallback", []string{"hides a driver that fails", "words of b"}, "words of a"},
		"one is unsure":           {[]audit.ModeResult{base, of("a", audit.Honest, 1, "it failed"), of("b", audit.Unsure, 0, "who knows")}, exit.Unproved, "audit.unsure", []string{"is not known", "words of b"}, "words of a"},
		"none is reached":         {[]audit.ModeResult{base, of("a", audit.NotReached, 0, "it never asks"), of("b", audit.NotReached, 0, "it never asks")}, exit.Unproved, "audit.unsure audit.unsure", []string{"all 2 modes: it never asks"}, "words of"},
		"none, for other reasons": {[]audit.ModeResult{base, of("a", audit.NotReached, 0, "it never asks"), of("b", audit.NotReached, 0, "it crashed")}, exit.Unproved, "audit.unsure audit.unsure", []string{"it never asks", "it crashed"}, "all 2 modes"},
		"a single mode":           {[]audit.ModeResult{base, of("a", audit.NotReached, 0, "it never asks")}, exit.Unproved, "audit.unsure", []string{"it never asks"}, "all 1 modes"},
		"nothing was run":         {nil, exit.Unproved, "", nil, "Audited"},
	} {
		var said bytes.Buffer
		printAudit(&session.Machine{Shell: &console.Shell{Err: &said}}, tt.modes)
		for _, want := range tt.says {
			if !strings.Contains(said.String(), want) {
				t.Errorf("%s: no %q in\n%s", story, want, said.String())
			}
		}
		if strings.Contains(said.String(), tt.not) {
			t.Errorf("%s: %q in\n%s", story, tt.not, said.String())
		}
		var ids []string
		for _, f := range auditFindings(tt.modes, "src/main.rs") {
			if ids = append(ids, f.ID); f.Path != "src/main.rs" || (f.Evidence != "") != (f.ID == "audit.fallback") {
				t.Errorf("%s: %+v", story, f)
			}
		}
		if got := strings.Join(ids, " "); got != tt.findings || exit.Of(auditEnd(tt.modes)) != tt.code {
			t.Errorf("%s: findings %q, end %v", story, got, auditEnd(tt.modes))
		}
	}
}
