package proof

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/hosttest"
	"gpubuild/buildenv/local"
	"gpubuild/cmd/internal/cargorun"
	"gpubuild/cmd/internal/config"
	"gpubuild/cmd/internal/console"
	"gpubuild/cmd/internal/session"
	"gpubuild/gpu/verify"
	"gpubuild/toolchain/cargo"
)

// TestJudgedRun: what a run comes to by what its programs showed, by how cargo ended and by what was asked.
func TestJudgedRun(t *testing.T) {
	t.Parallel()
	h := hosttest.Must(local.Host())(t)
	of := func(k verify.Kind, end verify.Exit) []Proof {
		return []Proof{{Program: "/t/app", Verdict: verify.Verdict{Kind: k, Why: "why"}, Evidence: verify.Evidence{Ran: true, Exit: end}}}
	}
	well, stopped := verify.Exit{}, verify.Exit{Code: 143, TimedOut: true}
	ended := func(code int) error { return &buildenv.ExitError{Result: buildenv.Result{Code: code}} }
	lost := []Proof{{Program: "/t/app", Finding: "elsewhere.incomplete", Verdict: verify.Verdict{Kind: verify.Unproved, Why: "lost"}}}
	proven, noReceipt := of(verify.Proved, well), of(verify.Proved, well)
	noReceipt[0].NoReceipt = "no receipt: it changed"
	three := Options{Rules: verify.Rules{ExpectExit: 3}, ExitGiven: true}
	required := Options{Required: true}
	for story, tt := range map[string]struct {
		words   string
		o       Options
		proofs  []Proof
		listed  string
		ran     error
		here    bool // a device
		ci      bool
		prove   *config.Prove
		code    int
		excused bool
		says    string
	}{
		"proven":                           {words: "run", proofs: proven, here: true},
		"on the CPU":                       {words: "run", proofs: of(verify.NotUsed, well), here: true, code: exit.NotUsed, says: "why"},
		"on the CPU, as asked":             {words: "run", o: Options{ExpectCPU: true}, proofs: of(verify.NotUsed, well), here: true},
		"other kernels of a plain run":     {words: "run", proofs: of(verify.OtherKernels, well), here: true},
		"other kernels of one asked for":   {words: "run", o: required, proofs: of(verify.OtherKernels, well), here: true, code: exit.OtherKernels},
		"the program failed":               {words: "run", proofs: of(verify.Proved, verify.Exit{Code: 3}), ran: ended(3), here: true, code: 3},
		"it failed as expected":            {words: "run", o: three, proofs: of(verify.Proved, verify.Exit{Code: 3}), ran: ended(3), here: true, excused: true},
		"it failed as expected, unproved":  {words: "run", o: three, proofs: of(verify.Unproved, verify.Exit{Code: 3}), ran: ended(3), here: true, excused: true, code: exit.Unproved},
		"it failed otherwise":              {words: "run", o: three, proofs: of(verify.Proved, verify.Exit{Code: 4}), ran: ended(4), here: true, code: 4},
		"cargo failed as expected of it":   {words: "run", o: three, proofs: of(verify.Proved, well), ran: ended(3), here: true, code: 3},
		"a test never fails as expected":   {words: "test", o: three, proofs: of(verify.Proved, verify.Exit{Code: 3}), ran: ended(3), here: true, code: 3},
		"by a signal of that number":       {words: "run", o: three, proofs: of(verify.Proved, verify.Exit{Code: 3, Signal: "SIGQUIT"}), ran: ended(3), here: true, code: 3},
		"its time was over":                {words: "run", proofs: of(verify.Proved, verify.Exit{Code: 130, TimedOut: true}), ran: ended(130), here: true, excused: true, code: exit.Unproved},
		"its time was over, and another":   {words: "run", proofs: append(of(verify.Proved, verify.Exit{Code: 130, TimedOut: true}), of(verify.Proved, verify.Exit{Code: 1})...), ran: ended(130), here: true, code: 130},
		"a list of tests":                  {words: "test -- --list", here: true, says: "as was asked"},
		"a list where a proof was wanted":  {words: "test -- --list", o: required, here: true, code: exit.Unproved, says: "as was asked"},
		"a list that failed":               {words: "test -- --list", o: required, ran: ended(4), here: true, code: 4, says: "as was asked"},
		"no test ran":                      {words: "test x", listed: "/t/app", here: true, says: "no test ran"},
		"nothing was started":              {words: "test", here: true, says: "no program was started"},
		"nothing started to be proven":     {words: "test", o: required, here: true, code: exit.Unproved, says: "no program was started"},
		"the result was lost":              {words: "run", proofs: lost, here: true, code: exit.Unproved},
		"the result was lost, by exit":     {words: "run", proofs: lost, ran: ended(21), here: true, code: exit.Unproved},
		"lost, and another failed":         {words: "test", proofs: append(of(verify.Proved, verify.Exit{Code: 101}), lost...), ran: ended(101), here: true, code: 101},
		"proven, and no receipt":           {words: "run", proofs: noReceipt, here: true, code: exit.Other},
		"tests: one of two":                {words: "test", proofs: append(of(verify.NotUsed, well), proven...), here: true, says: "1 of 1 program ran a kernel"},
		"tests, on the CPU":                {words: "test", o: Options{ExpectCPU: true}, proofs: of(verify.NotUsed, well), here: true},
		"tests that nobody marks":          {words: "test", proofs: of(verify.NotUsed, well), here: true, says: "is marked in gpubuild.toml: [test] gpu = "},
		"tests that nobody marks, failed":  {words: "test", proofs: of(verify.NotUsed, verify.Exit{Code: 101}), ran: ended(101), here: true, code: 101},
		"tests that nobody marks, stopped": {words: "test", proofs: of(verify.NotUsed, stopped), ran: ended(143), here: true, excused: true, code: exit.Unproved},
		"stopped, and ended with 0":        {words: "test", proofs: of(verify.NotUsed, verify.Exit{TimedOut: true}), here: true, code: exit.Unproved},
		"one proven, and one stopped":      {words: "test", proofs: append(of(verify.NotUsed, stopped), proven...), ran: ended(143), here: true, excused: true, code: exit.Unproved},
		"tests that are all to be proven":  {words: "test", o: required, proofs: of(verify.NotUsed, well), here: true, code: exit.NotUsed},
		"tests on a device that is named":  {words: "bench", o: Options{Rules: verify.Rules{Device: "1"}}, proofs: of(verify.NotUsed, well), here: true, code: exit.NotUsed},
		"no GPU":                           {words: "run", says: "no GPU here"},
		"no GPU, and a proof was wanted":   {words: "run", o: required, code: exit.Unproved, says: "no GPU here"},
		"no GPU, and it failed":            {words: "run", o: required, ran: ended(3), code: 3, says: "no GPU here"},
		"no GPU, and it failed as asked":   {words: "run", o: Options{Required: true, Rules: verify.Rules{ExpectExit: 3}, ExitGiven: true}, ran: ended(3), code: exit.Unproved, says: "no GPU here"},
		"no GPU in CI":                     {words: "run", ci: true, says: "no GPU here"},
		"no GPU in CI, and a table":        {words: "run", ci: true, prove: &config.Prove{}, code: exit.Unproved, says: InCI},
		"no GPU, and a table":              {words: "run", prove: &config.Prove{}, says: "no GPU here"},
		"no GPU in CI, by table and flags": {words: "run", ci: true, o: required, prove: &config.Prove{}, code: exit.Unproved, says: "no GPU here"},
	} {
		line, _ := hosttest.Must2(cargo.Split(strings.Fields(tt.words), nil))(t)
		h := h
		if h.Env = h.Env.Unset("CI"); tt.ci {
			h.Env = h.Env.Set("CI", "true")
		}
		var said bytes.Buffer
		s := &session.Session{Machine: &session.Machine{Host: h, Shell: &console.Shell{Err: &said}}, Line: line}
		s.Config.Prove.Value = tt.prove
		r := Request{Session: s, Options: tt.o, Programs: []cargorun.Program{{Name: "app", Kind: map[bool]string{true: "bin", false: "test"}[line.Verb == "run"], Path: "/t/app"}}}
		dir := t.TempDir()
		state := r.runnerState(dir, nil, runtimes{devices: tt.here})
		for _, p := range tt.proofs {
			hosttest.OK(t, state.keep(processReport{Proof: p}))
		}
		if tt.listed != "" {
			hosttest.OK(t, state.keep(processReport{Proof: Proof{Program: tt.listed}, Listed: true}))
		}
		result, excused, end := r.judge(dir, state, tt.ran)
		if exit.Of(end) != tt.code || excused != tt.excused || !strings.Contains(said.String(), tt.says) || tt.here && len(result.Proofs) != len(tt.proofs) {
			t.Errorf("%s: %v, excused %v\n%s", story, end, excused, said.String())
		}
		if strings.Contains(said.String(), InCI) != (tt.says == InCI) {
			t.Errorf("%s: CI is spoken of:\n%s", story, said.String())
		}
	}
	dir := t.TempDir()
	for name, text := range map[string]string{"proof-1.json": "{", "state.json": "{"} {
		if _, _, err := readProofs(dir); err != nil {
			t.Errorf("before %s: %v", name, err)
		}
		hosttest.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
		if _, _, err := readProofs(dir); (err != nil) != strings.HasPrefix(name, "proof-") {
			t.Errorf("%s: %v", name, err)
		}
		hosttest.OK(t, os.Remove(filepath.Join(dir, name)))
	}
	if _, _, err := readProofs(filepath.Join(dir, "none")); err == nil {
		t.Error("no directory")
	}
}

// TestBuilt: the end of a build says how to prove it, or why nothing is proven; only a proof that was asked for is an error.
func TestBuilt(t *testing.T) {
	t.Parallel()
	app := cargorun.Program{Name: "app", Kind: "bin", Path: "/w/target/app"}
	tool := cargorun.Program{Name: "tool", Kind: "bin", Path: "/w/target/tool"}
	for story, tt := range map[string]struct {
		programs []cargorun.Program
		o        Options
		prove    *config.Prove
		code     int
		why      string // of the result
		says     string
	}{
		"a library":                       {nil, Options{}, nil, 0, "", ""},
		"a library, to be proven":         {nil, Options{Required: true}, nil, exit.Unproved, "the build made no program; choose one with --bin", "the build made no program"},
		"a library, to be run":            {nil, Options{Wanted: true}, nil, exit.Unproved, "the build made no program; choose one with --bin", "the build made no program"},
		"a program":                       {[]cargorun.Program{app}, Options{}, nil, 0, "", "To prove it, run: gpubuild prove target/app\n"},
		"a program and its arguments":     {[]cargorun.Program{app}, Options{Args: []string{"-n", "a b"}}, nil, 0, "", "run: gpubuild prove target/app -- -n 'a b'\n"},
		"two programs":                    {[]cargorun.Program{app, tool}, Options{}, nil, 0, "", "prove a program with `gpubuild prove BIN -- ARGS`"},
		"two programs, to be proven":      {[]cargorun.Program{app, tool}, Options{Required: true}, nil, exit.Unproved, "the build made several programs; choose one with --bin, or with bin in the [prove] table", "several programs"},
		"two programs and a table":        {[]cargorun.Program{app, tool}, Options{}, &config.Prove{}, exit.Unproved, "the build made several programs; choose one with --bin, or with bin in the [prove] table", "several programs"},
		"the table's program is not made": {[]cargorun.Program{app}, Options{Wanted: true}, &config.Prove{Bin: "x"}, exit.Unproved, "the build made no program x, which the [prove] table names", "no program x"},
		"no GPU":                          {[]cargorun.Program{app}, Options{Wanted: true}, nil, exit.Unproved, "no GPU here", "no GPU here. On a GPU machine, run: gpubuild prove target/app\n"},
		"no GPU, and a proof was wanted":  {[]cargorun.Program{app}, Options{Required: true}, nil, exit.Unproved, "no GPU here", "no GPU here"},
		"no GPU, which is allowed":        {[]cargorun.Program{app}, Options{Wanted: true, AllowNoDevice: true}, nil, 0, "no GPU here", "no GPU here"},
		"no GPU, and a table":             {[]cargorun.Program{app, tool}, Options{}, &config.Prove{Bin: "tool", Args: []string{"-x"}}, 0, "no GPU here", "run: gpubuild prove target/tool -- -x\n"},
		"no GPU, a table and arguments":   {[]cargorun.Program{app}, Options{Args: []string{"-y"}}, &config.Prove{Args: []string{"-x"}}, 0, "no GPU here", "run: gpubuild prove target/app -- -y\n"},
	} {
		var said bytes.Buffer
		h := hosttest.Memory(map[string]string{})
		h.Cwd = "/w"
		s := &session.Session{Machine: &session.Machine{Host: h, Shell: &console.Shell{Err: &said}}, Line: cargo.Line{Verb: "build"}}
		s.Config.Prove.Value = tt.prove
		got, err := Built(context.Background(), Request{Session: s, Options: tt.o, Programs: tt.programs})
		if exit.Of(err) != tt.code || got.NotProven != tt.why || !strings.Contains(said.String(), tt.says) || (said.Len() > 0) != (tt.says != "") {
			t.Errorf("%s: %v, %q\n%s", story, err, got.NotProven, said.String())
		}
	}
}

// place is an error of a place.
type place struct{ hint string }

func (place) Error() string     { return "no answer" }
func (place) FindingID() string { return "elsewhere.unreachable" }
func (p place) Hint() string    { return p.hint }

// TestUnreached: that a place did not answer is a proof without a result; any other error stays one.
func TestUnreached(t *testing.T) {
	for _, hint := range []string{"", "ask again"} {
		p, is := unreached("/x", place{hint})
		if !is || p.Finding != "elsewhere.unreachable" || p.Verdict.Kind != verify.Unproved || p.Verdict.Why != "no answer" || (len(p.Verdict.Lines) > 0) != (hint != "") {
			t.Errorf("%q: %+v, %v", hint, p, is)
		}
	}
	for _, err := range []error{nil, errors.New("disk full")} {
		if _, is := unreached("/x", err); is {
			t.Errorf("%v is of a place", err)
		}
	}
}

// The exit code of a proof: the program's own where it failed by itself, else the verdict's.
func TestOutcomeOfAProof(t *testing.T) {
	for _, tt := range []struct {
		story    string
		kind     verify.Kind
		exit     verify.Exit
		expected int
		gpu, cpu error // where the GPU, where the CPU was to be used
	}{
		{"proven", verify.Proved, verify.Exit{}, 0, nil, exit.Code(exit.OtherKernels)},
		{"on the CPU", verify.NotUsed, verify.Exit{}, 0, exit.Code(exit.NotUsed), nil},
		{"other kernels", verify.OtherKernels, verify.Exit{}, 0, exit.Code(exit.OtherKernels), exit.Code(exit.OtherKernels)},
		{"it is not known", verify.Unproved, verify.Exit{}, 0, exit.Code(exit.Unproved), exit.Code(exit.Unproved)},
		{"no device", verify.NoDevice, verify.Exit{}, 0, exit.Code(exit.Unproved), exit.Code(exit.Unproved)},
		{"it failed", verify.Unproved, verify.Exit{Code: 3}, 0, exit.Code(3), exit.Code(3)},
		{"it failed as expected", verify.Proved, verify.Exit{Code: 3}, 3, nil, exit.Code(exit.OtherKernels)},
		{"it should have failed", verify.Unproved, verify.Exit{}, 3, exit.Code(exit.Unproved), exit.Code(exit.Unproved)},
		{"a signal", verify.Unproved, verify.Exit{Code: 139, Signal: "SIGSEGV"}, 0, exit.Killed{Code: 139}, exit.Killed{Code: 139}},
		{"its time was over: the signal was ours", verify.Unproved, verify.Exit{Code: 130, TimedOut: true}, 0, exit.Code(exit.Unproved), exit.Code(exit.Unproved)},
	} {
		t.Run(tt.story, func(t *testing.T) {
			p := Proof{Verdict: verify.Verdict{Kind: tt.kind}, Evidence: verify.Evidence{Ran: true, Exit: tt.exit}}
			hosttest.Equal(t, Outcome(p, tt.expected, false), tt.gpu, "where the GPU was to be used")
			hosttest.Equal(t, Outcome(p, tt.expected, true), tt.cpu, "where the CPU was to be used")
		})
	}
}

// TestEveryVerdictHasACode: a verdict that the table lacks would exit with 0.
func TestEveryVerdictHasACode(t *testing.T) {
	for _, k := range verify.Kinds() {
		if (k.Code(false) == 0) != (k == verify.Proved) || (k.Code(true) == 0) != (k == verify.NotUsed) {
			t.Errorf("%s: %d, %d", k, k.Code(false), k.Code(true))
		}
	}
}

// TestInCI: services set the variable; people switch it off by a word.
func TestInCI(t *testing.T) {
	for value, want := range map[string]bool{"true": true, "1": true, "woodpecker": true, "": false, "0": false, "false": false, "False": false} {
		h := buildenv.Host{OS: buildenv.Linux, Env: buildenv.NewEnv(buildenv.Linux, []string{"CI=" + value})}
		hosttest.Equal(t, inCI(&session.Machine{Host: h}), want, "CI=", value)
	}
}

// TestEndedForTime: only where every failure is our own signal, and cargo's code is that program's, is the run's failure not its own.
func TestEndedForTime(t *testing.T) {
	well, failed := verify.Exit{}, verify.Exit{Code: 3}
	over, trapped := verify.Exit{Code: 130, Signal: "SIGINT", TimedOut: true}, verify.Exit{Code: 0, TimedOut: true}
	for _, tt := range []struct {
		story string
		ends  []verify.Exit
		code  int
		want  bool
	}{
		{"its time was over", []verify.Exit{over}, 130, true},
		{"one of two", []verify.Exit{well, over}, 130, true},
		{"cargo fails for another reason", []verify.Exit{over}, 101, false},
		{"another program failed by itself", []verify.Exit{failed, over}, 130, false},
		{"it failed in its time", []verify.Exit{failed}, 3, false},
		{"it ended well when it was asked to", []verify.Exit{trapped}, 101, false},
		{"nothing was proven", nil, 130, false},
	} {
		t.Run(tt.story, func(t *testing.T) {
			var proofs []Proof
			for _, e := range tt.ends {
				proofs = append(proofs, Proof{Evidence: verify.Evidence{Exit: e}})
			}
			hosttest.Equal(t, endedForTime(proofs, tt.code), tt.want)
		})
	}
}

// TestProveTable: the table counts for the program that it names, and a flag comes before it, 0 included.
func TestProveTable(t *testing.T) {
	s := &session.Session{Machine: &session.Machine{}, Line: cargo.Line{Verb: "run"}}
	s.Config.Prove.Value = &config.Prove{Bin: "server", ExpectExit: 3, UntilProved: true}
	of := func(name string) []cargorun.Program { return []cargorun.Program{{Name: name, Kind: "bin"}} }
	for story, tt := range map[string]struct {
		programs []cargorun.Program
		options  Options
		exit     int
		asks     bool
	}{
		"the program of the table":   {of("server"), Options{}, 3, true},
		"another":                    {of("tool"), Options{}, 0, false},
		"a flag":                     {of("server"), Options{Rules: verify.Rules{ExpectExit: 2}, ExitGiven: true}, 2, true},
		"a flag that says the usual": {of("server"), Options{ExitGiven: true}, 0, true},
		"a flag, of another program": {of("tool"), Options{Rules: verify.Rules{ExpectExit: 2}, ExitGiven: true}, 2, false},
		"no program is known yet":    {nil, Options{}, 3, true},
	} {
		r := Request{Session: s, Options: tt.options, Programs: tt.programs}
		if got := r.task(""); got.Asked.ExpectExit != tt.exit || r.asksForMatch() != tt.asks || got.Until != tt.asks {
			t.Errorf("%s: %+v, asks %v", story, got, r.asksForMatch())
		}
	}
}

// TestChosen: one program or example is that of the build, and a test is none.
func TestChosen(t *testing.T) {
	for kinds, want := range map[string]string{
		"test bin": "bin", "test example": "example", "bin example": "", "test": "", "": "",
	} {
		var programs []cargorun.Program
		for _, kind := range strings.Fields(kinds) {
			programs = append(programs, cargorun.Program{Name: kind, Kind: kind})
		}
		name := ""
		if p := Chosen(programs, nil); p != nil {
			name = p.Name
		}
		hosttest.Equal(t, name, want, kinds)
	}
}

// TestFilteredMarks: marks that a filter or a choice of targets leaves out are no failure where something else was tested; nothing at all is none
// either, unless what is marked was to run.
func TestFilteredMarks(t *testing.T) {
	marked := tested{name: "multiply", marked: true, listed: true}
	quiet, lib := tested{name: "quiet", processes: 1}, tested{name: "lib:app", listed: true}
	for _, tt := range []struct {
		rows []tested
		want wanted
		code int
	}{
		{[]tested{marked, quiet}, wanted{marked: true}, exit.Done},
		{[]tested{lib}, wanted{marked: true}, exit.Done},
		{[]tested{marked}, wanted{marked: true}, exit.Unproved},
		{[]tested{lib}, wanted{marked: true, all: true}, exit.Unproved},
		{[]tested{lib}, wanted{}, exit.Unproved},
	} {
		hosttest.Equal(t, worstOf(tt.rows, tt.want), tt.code, tt.rows, tt.want)
	}
	for words, want := range map[string]struct{ filters, test string }{"--nocapture adds": {"adds", ""}, "--skip adds": {"adds", ""}, "--nocapture": {},
		"--test-threads 1": {}, "--format pretty adds": {"adds", ""}, "small::adds --nocapture --exact": {"small::adds", "small::adds"},
		"--exact adds rows": {"adds rows", ""}, "--exact --skip adds": {"adds", ""}} {
		fields := strings.Fields(words)
		if got, test := strings.Join(filters(fields), " "), testOf(fields); got != want.filters || test != want.test {
			t.Errorf("%s: filters %q, the test %q, want %+v", words, got, test, want)
		}
	}
}

// TestTableCountsProvenPrograms: a program counts as one that ran a kernel only if it ran and was proven, a marked one apart.
func TestTableCountsProvenPrograms(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	m := &session.Machine{Shell: &console.Shell{Out: io.Discard, Err: &out}}
	printTested(m, []tested{
		{name: "proven", marked: true, processes: 1, kind: verify.Proved}, {name: "cpu", marked: true, processes: 1, kind: verify.NotUsed},
		{name: "away", marked: true, kind: verify.Proved}, {name: "other", processes: 2, lost: 1, kind: verify.Proved},
		{name: "unmarked", processes: 1, kind: verify.Proved},
	})
	for _, want := range []string{"3 of 5 programs ran a kernel on the GPU; of those that are marked, 1 of 3", "(2 processes, 1 failed or lost)", "not run"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}

// TestADamagedProofIsAnError: what a runner left and cannot be read is no run without a proof.
func TestADamagedProofIsAnError(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	hosttest.OK(t, os.WriteFile(filepath.Join(dir, "proof-1.json"), []byte("{"), 0o600))
	var out bytes.Buffer
	s := &session.Session{Machine: &session.Machine{Shell: &console.Shell{Out: &out, Err: &out}}, Line: cargo.Line{Verb: "run"}}
	if _, _, err := (Request{Session: s}).judge(dir, runnerState{Devices: true}, nil); err == nil || !strings.Contains(err.Error(), "proof-1.json") || out.Len() > 0 {
		t.Errorf("%v: %s", err, out.String())
	}
}
