package proof

import (
	"strings"
	"testing"

	"gpubuild/buildenv/exit"
	"gpubuild/cmd/internal/cargorun"
	"gpubuild/cmd/internal/config"
	"gpubuild/cmd/internal/session"
	"gpubuild/gpu/verify"
	"gpubuild/toolchain/cargo"
)

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
		if name != want {
			t.Errorf("of %s: %q, want %q", kinds, name, want)
		}
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
		if got := worstOf(tt.rows, tt.want); got != tt.code {
			t.Errorf("%+v, %+v: %d, want %d", tt.rows, tt.want, got, tt.code)
		}
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
