package proof

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/hosttest"
	"gpubuild/cmd/internal/cargorun"
	"gpubuild/cmd/internal/console"
	"gpubuild/cmd/internal/session"
	"gpubuild/gpu/verify"
	"gpubuild/toolchain/cargo"
)

// TestMissedMarks: a marked target of which the user's own filter leaves no test is a note, unless a proof is required; others are errors.
func TestMissedMarks(t *testing.T) {
	for _, tt := range []struct {
		words    string
		required bool
		row      tested
		want     string // a part of the only line; empty: none
		noted    bool
	}{
		{"test --test a", false, tested{listed: true}, "", false},
		{"test --test a", false, tested{marked: true, processes: 1}, "", false},
		{"test --test a", false, tested{marked: true, listed: true}, "none of its tests was run", false},
		{"test --test a filter", false, tested{marked: true, listed: true}, "", true},
		{"test --test a filter", true, tested{marked: true, listed: true}, "none of its tests was run", false},
		{"test --test a filter", false, tested{marked: true}, "cargo did not start it", false},
	} {
		line, _ := hosttest.Must2(cargo.Split(strings.Fields(tt.words), nil))(t)
		var said bytes.Buffer
		m := &session.Machine{Host: buildenv.Host{OS: buildenv.Linux}, Shell: &console.Shell{Err: &said}}
		r := Request{Session: &session.Session{Machine: m, Line: line}}
		r.Options.Required = tt.required
		got := strings.Join(r.missedMarks([]tested{tt.row}), "\n")
		if (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) || (said.Len() > 0) != tt.noted {
			t.Errorf("%s, required %v, %+v: got %q and %q", tt.words, tt.required, tt.row, got, said.String())
		}
	}
}

// TestRowsOfSeveralMembers: what two members call the same says whose it is.
func TestRowsOfSeveralMembers(t *testing.T) {
	m := &session.Machine{Host: buildenv.Host{OS: buildenv.Linux}}
	r := Request{Session: &session.Session{Machine: m, Line: cargo.Line{Verb: "test"}}}
	for _, p := range []cargorun.Program{{Package: "a", Name: "multiply", Target: "test"}, {Package: "b", Name: "multiply", Target: "test"},
		{Package: "a", Name: "a", Target: "lib"}, {Package: "a", Name: "a", Target: "bin"}, {Package: "b", Name: "alone", Target: "test"}} {
		p.Kind, p.Path = "test", "/"+p.Package+p.Target+p.Name
		r.Programs = append(r.Programs, p)
	}
	var names []string
	for _, row := range r.tested(nil, nil, false) {
		names = append(names, row.name)
	}
	hosttest.Equal(t, strings.Join(names, " "), "a:multiply b:multiply lib:a bin:a alone")
}

func TestWorstOfARun(t *testing.T) {
	ran := func(k verify.Kind, marked bool) tested { return tested{processes: 1, kind: k, marked: marked} }
	left := tested{marked: true}
	for _, tt := range []struct {
		story string
		rows  []tested
		w     wanted
		want  int
	}{
		{"nothing was started", nil, wanted{}, exit.Unproved},
		{"one program of a run", []tested{ran(verify.Proved, false)}, wanted{all: true}, exit.Done},
		{"one of several, none is marked", []tested{ran(verify.NotUsed, false), ran(verify.Proved, false)}, wanted{}, exit.Done},
		{"one of several, and all must", []tested{ran(verify.NotUsed, false), ran(verify.Proved, false)}, wanted{all: true}, exit.NotUsed},
		{"none of several", []tested{ran(verify.Unproved, false), ran(verify.NotUsed, false)}, wanted{}, exit.NotUsed},
		{"the marked one", []tested{ran(verify.NotUsed, false), ran(verify.Proved, true)}, wanted{marked: true}, exit.Done},
		{"another than the marked one", []tested{ran(verify.Proved, false), ran(verify.NotUsed, true)}, wanted{marked: true}, exit.NotUsed},
		{"other kernels in the marked one", []tested{ran(verify.Proved, false), ran(verify.OtherKernels, true)}, wanted{marked: true}, exit.OtherKernels},
		{"of the marked one it is not known", []tested{ran(verify.Proved, true), ran(verify.Unproved, true)}, wanted{marked: true}, exit.Unproved},
		{"what is certain before what is not", []tested{ran(verify.Unproved, true), ran(verify.OtherKernels, true), ran(verify.NotUsed, true)}, wanted{marked: true}, exit.NotUsed},
		{"other kernels in a plain run", []tested{ran(verify.OtherKernels, false)}, wanted{all: true, lenient: true}, exit.Done},
		{"other kernels in a run that was asked for a proof", []tested{ran(verify.OtherKernels, false)}, wanted{all: true}, exit.OtherKernels},
		{"other kernels and the CPU in a plain test", []tested{ran(verify.OtherKernels, false), ran(verify.NotUsed, false)}, wanted{lenient: true}, exit.Done},
		{"the CPU in a plain test", []tested{ran(verify.NotUsed, false)}, wanted{lenient: true}, exit.NotUsed},
		{"a marked one was not started", []tested{ran(verify.Proved, true), left}, wanted{marked: true, missed: true}, exit.Unproved},
		{"the zero value is not proven", []tested{{processes: 1, marked: true}}, wanted{marked: true}, exit.Unproved},
		{"the CPU was wanted", []tested{ran(verify.NotUsed, false), ran(verify.NotUsed, false)}, wanted{all: true, cpu: true}, exit.Done},
		{"the CPU was wanted, and one used the GPU", []tested{ran(verify.NotUsed, false), ran(verify.Proved, false)}, wanted{all: true, cpu: true}, exit.OtherKernels},
		{"the CPU was wanted, and of one it is not known", []tested{ran(verify.NotUsed, false), ran(verify.NoDevice, false)}, wanted{all: true, cpu: true}, exit.Unproved},
	} {
		t.Run(tt.story, func(t *testing.T) {
			hosttest.Equal(t, worstOf(tt.rows, tt.w), tt.want)
		})
	}
}

func TestProcessesOfOneProgramAreJoined(t *testing.T) {
	of := func(kinds ...verify.Kind) (out []Proof) {
		for _, k := range kinds {
			p := Proof{Verdict: verify.Verdict{Kind: k, Kernels: []verify.KernelSummary{{Name: "_Z6matmulv", Plain: "matmul", Launch: 2}, {Name: "fill", Launch: 1}}}}
			if k == verify.Proved {
				p.Verdict.Device, p.Verdict.UUID = "H200", "GPU-1"
			}
			out = append(out, p)
		}
		return out
	}
	for _, tt := range []struct {
		proofs []Proof
		want   verify.Kind
	}{
		{of(verify.NotUsed, verify.Proved, verify.Unproved), verify.Proved},
		{of(verify.NotUsed, verify.OtherKernels, verify.Unproved), verify.OtherKernels},
		{of(verify.NotUsed, verify.Unproved), verify.Unproved},
		{of(verify.NotUsed, verify.NotUsed), verify.NotUsed},
		{of(verify.NotUsed, verify.NoDevice), verify.NoDevice},
		{nil, verify.Unproved},
	} {
		got := join(tt.proofs, false)
		if got.kind != tt.want || got.processes != len(tt.proofs) {
			t.Errorf("got %s of %d, want %s of %d", got.kind, got.processes, tt.want, len(tt.proofs))
		}
	}
	if got := DecisiveProcess(of(verify.NotUsed, verify.Proved, verify.Unproved, verify.Proved)); got[""] != 1 {
		t.Errorf("number %d speaks for the program, not the first that is proven", got[""])
	}
	got := join(of(verify.Proved, verify.Proved), true)
	if got.device != "H200 (GPU-1)" || !slices.Equal(got.kernels, []launched{{"matmul", 4}, {"fill", 2}}) {
		t.Errorf("got %+v", got)
	}
	bad := of(verify.Proved, verify.Proved)
	bad[1].Evidence.Exit.Code = 101
	stopped := of(verify.Proved, verify.Proved)
	stopped[1].Evidence.Exit = verify.Exit{Code: 143, Signal: "SIGTERM", Stopped: true}
	if got := join(stopped, true); got.kind != verify.Proved {
		t.Errorf("one that gpubuild stopped made it %s", got.kind)
	}
	lost := of(verify.Proved, verify.Unproved)
	lost[1].Finding = "elsewhere.incomplete"
	late := of(verify.Proved, verify.Proved) // it ended well, when its time was over
	late[1].Evidence.Exit.TimedOut = true
	for _, list := range [][]Proof{bad, lost, late} {
		if now, again := join(list, true), join(list, false); now.kind != verify.Unproved || again.kind != verify.Proved {
			t.Errorf("where the run failed %s, else %s", now.kind, again.kind)
		}
	}
}

func TestKernelsCellIsShort(t *testing.T) {
	long := make([]rune, 4096)
	for i := range long {
		long[i] = 'é'
	}
	got := kernelsCell([]launched{{string(long), 1}, {"b", 2}, {"c", 3}, {"d", 4}, {"e", 5}})
	if want := string(long[:45]) + "... ×1, b ×2, c ×3, 2 more"; got != want {
		t.Errorf("got %q", got)
	}
	hosttest.Equal(t, kernelsCell(nil), "-")
}
