package proof

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"gpubuild/buildenv/exit"
	"gpubuild/cmd/internal/cargorun"
	"gpubuild/cmd/internal/config"
	"gpubuild/cmd/internal/session"
	"gpubuild/gpu/verify"
	"gpubuild/toolchain/cargo"
)

// Marks are the table of the configuration that says which programs of a command line must use the GPU; nil: none does.
func Marks(s *session.Session) *config.Marked {
	var table *config.Marked
	switch test := s.Config.Test.Value; {
	case s.Line.Verb == "bench":
		table = s.Config.Bench.Value
	case s.Line.Verb == "test" && test != nil:
		table = &test.Marked
	}
	if table == nil || len(table.GPU) == 0 {
		return nil
	}
	return table
}

// Marked reports whether a program must use the GPU.
func Marked(s *session.Session, p cargorun.Program) bool {
	m := Marks(s)
	return m != nil && slices.ContainsFunc(m.GPU, func(pattern string) bool { return config.Matches(pattern, p.Package, p.Target, p.Name) })
}

// CheckNames refuses a pattern that no target of the workspace is called by: it would be a test that never fails.
func CheckNames(patterns []string, targets []cargorun.Target, unknown func(string, []string) error) error {
	var have []string
	for _, t := range targets {
		if name := t.Kind + ":" + t.Name; !slices.Contains(have, name) {
			have = append(have, name)
		}
	}
	for _, pattern := range patterns {
		if !slices.ContainsFunc(targets, func(t cargorun.Target) bool { return config.Matches(pattern, t.Package, t.Kind, t.Name) }) {
			return unknown(pattern, have)
		}
	}
	return nil
}

// task is a program as the command line asks for it, else the configuration for this verb.
func (r Request) task(binary string) Task {
	t := r.Options.task(binary)
	want, marks := r.table(), Marks(r.Session)
	if r.Session.Line.Purpose() == cargo.Tests {
		want = nil
	}
	switch {
	case want != nil:
		if !r.Options.ExitGiven {
			t.Asked.ExpectExit = want.ExpectExit
		}
		if t.Asked.Kernel == "" {
			t.Asked.Kernel = want.Kernel.Expression()
		}
		t.Asked.MinLaunches = cmp.Or(t.Asked.MinLaunches, want.Launches())
		t.Asked.MinTime = cmp.Or(t.Asked.MinTime, want.MinTime())
		t.Until = t.Until || want.UntilProved && !r.Options.ExpectCPU
	case marks != nil && t.Asked.Kernel == "":
		t.Asked.Kernel = marks.Kernel.Expression()
	}
	return t
}

// table is the [prove] table; nil where there is none, where it is that of a package of which nothing was built, or where `run` runs
// another program than the one that it names. Without GPU work only the command line says which that is.
func (r Request) table() *config.Prove {
	want, line := r.Session.Config.Prove.Value, r.Session.Line
	if r.Programs != nil && !slices.ContainsFunc(r.Programs, func(p cargorun.Program) bool { return want.Covers(p.Package) }) {
		return nil
	}
	if want == nil || want.Bin == "" || line.Purpose() != cargo.Runs || Chosen(r.Programs, want) != nil {
		return want
	}
	if r.Programs == nil && (!line.Has("--bin", "--example") || slices.Contains(line.Words(), want.Bin)) {
		return want
	}
	return nil
}

// asksForMatch reports whether other kernels than those that were asked for are an error. A plain run or test only shows them.
func (r Request) asksForMatch() bool {
	return r.Options.AsksForMatch() || r.Session.Line.Purpose() == cargo.Runs && r.table() != nil
}

// WantedBy is what wants a proof of what a command line builds, by the words of a message: a flag that alone makes no missing proof an error, or a
// table of the configuration; empty: nothing does, or the command line says otherwise. No target is looked at.
func (r Request) WantedBy() string {
	line, o, c := r.Session.Line, r.Options, r.Session.Config
	tests := line.Purpose() == cargo.Tests
	switch {
	case o.ExpectCPU, !line.Purpose().Compiles(), tests && asksForWords(line.Trailing):
	case o.Wanted && o.AllowNoDevice:
		return "--gpu-prove"
	case Marks(r.Session) != nil:
		return "[" + line.Verb + "]"
	case r.table() != nil:
		return "[prove]"
	case c.Test.Value != nil && (!tests && len(c.Test.Value.GPU) > 0 || line.Verb != "bench" && c.Test.Value.Coverage != nil):
		return "[test]"
	}
	return ""
}

// Requires reports whether a run that proves nothing is an error: where a flag asks for a proof, and in CI where the configuration does.
func (r Request) Requires() bool {
	s, o := r.Session, r.Options
	configured := r.coverageLimit() > 0 && !asksForWords(s.Line.Trailing) ||
		s.Line.Purpose() == cargo.Runs && r.table() != nil || Marks(s) != nil && !asksForWords(s.Line.Trailing) &&
		(r.Targets == nil || len(r.missedMarks(r.tested(nil, nil, false))) > 0) // what cargo does not test by choice needs no proof
	return o.Demanded() || configured && !o.ExpectCPU && !o.AllowNoDevice && inCI(s.Machine)
}

func (r Request) mustUse(path string) bool {
	i := slices.IndexFunc(r.Programs, func(p cargorun.Program) bool { return r.Session.Machine.Host.SamePath(p.Path, path) })
	return i >= 0 && Marked(r.Session, r.Programs[i])
}

// tested is one program of a run, with everything that its processes showed.
type tested struct {
	name      string
	pkg       string
	marked    bool
	processes int
	lost      int  // of a run that failed: those that failed or were lost
	listed    bool // it was started to say which tests it has
	kind      verify.Kind
	usedGPU   bool // one of its processes did, whatever the verdict
	kernels   []launched
	device    string
}

// launched is how often a kernel was launched.
type launched struct {
	kernel   string
	launches uint64
}

// tested joins what was built with what was started: nextest starts a process
// for each test, and a doctest is a program that cargo does not name. failed: the run was no success.
func (r Request) tested(proofs []Proof, listed []string, failed bool) []tested {
	h := r.Session.Machine.Host
	names := map[string]int{}
	for _, p := range r.Programs {
		names[p.Name]++
		names[p.Target+":"+p.Name]++
	}
	var rows []tested
	taken := make([]bool, len(proofs))
	for _, p := range r.Programs {
		var mine []Proof
		for i, got := range proofs {
			if !taken[i] && h.SamePath(got.Program, p.Path) {
				taken[i] = true
				mine = append(mine, got)
			}
		}
		if len(mine) == 0 && (p.Kind != "test" && p.Kind != "bench" || r.Session.Line.Purpose() == cargo.Runs) {
			continue // a program that was built for its tests to call
		}
		row := join(mine, failed)
		row.name, row.pkg, row.marked = p.Name, p.Package, Marked(r.Session, p)
		row.listed = slices.ContainsFunc(listed, func(path string) bool { return h.SamePath(path, p.Path) })
		if names[p.Name] > 1 {
			row.name = p.Target + ":" + p.Name
		}
		if names[row.name] > 1 { // in several members of the workspace
			row.name = p.Package + ":" + p.Name
		}
		rows = append(rows, row)
	}
	others := map[string][]Proof{}
	for i, got := range proofs {
		if !taken[i] {
			name := h.Base(got.Program)
			others[name] = append(others[name], got)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(others)) {
		row := join(others[name], failed)
		row.name = name
		rows = append(rows, row)
	}
	return rows
}

// DecisiveProcess answers, by program, which of its proofs speaks for it.
func DecisiveProcess(proofs []Proof) map[string]int {
	out := map[string]int{}
	for i, p := range proofs {
		if old, known := out[p.Program]; !known || p.Verdict.Kind.Rank() < proofs[old].Verdict.Kind.Rank() {
			out[p.Program] = i
		}
	}
	return out
}

// join makes one row of a program's processes. The program is proven when one of them is, unless the run failed, and another one of them
// with it or was lost (a test that a second try made good is no failure); that it ran on the CPU is said only of one of which all did.
func join(proofs []Proof, failed bool) tested {
	out := tested{processes: len(proofs)}
	launches := map[string]uint64{}
	var order, devices []string
	for i, p := range proofs {
		if k := p.Verdict.Kind; i == 0 || k.Rank() < out.kind.Rank() {
			out.kind = k
		}
		out.usedGPU = out.usedGPU || p.Evidence.UsedGPU()
		for _, k := range p.Verdict.Kernels {
			name := cmp.Or(k.Plain, k.Name)
			if _, known := launches[name]; !known {
				order = append(order, name)
			}
			launches[name] += k.Launch
		}
		if d := p.Verdict.Device; d != "" {
			if p.Verdict.UUID != "" {
				d += " (" + p.Verdict.UUID + ")"
			}
			if !slices.Contains(devices, d) {
				devices = append(devices, d)
			}
		}
	}
	for _, name := range order {
		out.kernels = append(out.kernels, launched{name, launches[name]})
	}
	out.device = strings.Join(devices, ", ")
	for _, p := range proofs {
		if failed && (p.Finding != "" || p.failed()) {
			out.lost++
		}
	}
	if out.lost > 0 && out.kind == verify.Proved {
		out.kind = verify.Unproved
	}
	return out
}

// missedMarks says which marks this run left open although the command line did not choose to: a target that cargo did not build for its
// required-features, or did not start.
func (r Request) missedMarks(rows []tested) []string {
	l := r.Session.Line
	chosen := l.Has("--lib", "--bins", "--bin", "--examples", "--example", "--tests", "--test", "--benches", "--bench", "--doc")
	packages := map[string]bool{}
	var out []string
	for _, row := range rows {
		packages[row.pkg] = true
		switch {
		case !row.marked || row.processes > 0:
		case row.listed && len(filters(slices.Concat(l.Positional, l.Trailing))) > 0 && !r.Requires():
			r.Session.Machine.Shell.Note("%s is marked, and none of its tests was run: the filter leaves none", row.name)
		case row.listed:
			out = append(out, fmt.Sprintf("not proven: %s is marked, and none of its tests was run", row.name))
		case !l.Has("--doc"):
			out = append(out, fmt.Sprintf("not proven: %s is marked and was built, and cargo did not start it", row.name))
		}
	}
	if chosen || len(out) > 0 {
		return out
	}
	for _, pattern := range Marks(r.Session).GPU {
		means := func(p cargorun.Program) bool { return config.Matches(pattern, p.Package, p.Target, p.Name) }
		if slices.ContainsFunc(r.Programs, means) {
			continue
		}
		// In a package of which other targets were tested.
		if slices.ContainsFunc(r.Targets, func(t cargorun.Target) bool {
			return packages[t.Package] && config.Matches(pattern, t.Package, t.Kind, t.Name)
		}) {
			out = append(out, fmt.Sprintf("not proven: %s is marked, but cargo %s did not build it: "+
				"it has required-features that are off, or is switched off for %s in the manifest", pattern, l.Verb, l.Verb))
		}
	}
	return out
}

// withValue are the flags of Rust's test programs whose next word is a value and names no test (library/test/src/cli.rs of rust-lang/rust).
var withValue = []string{"--test-threads", "--logfile", "--color", "--format", "--shuffle-seed", "-Z"}

// filters are the names by which words choose tests.
func filters(words []string) (names []string) {
	before := ""
	for _, word := range words {
		if !strings.HasPrefix(word, "-") && !slices.Contains(withValue, before) {
			names = append(names, word)
		}
		before = word
	}
	return names
}

// testOf is the one test that a test program's arguments choose; nextest starts a process for each.
func testOf(args []string) string {
	if names := filters(args); len(names) == 1 && slices.Contains(args, "--exact") && !slices.Contains(args, "--skip") {
		return names[0]
	}
	return ""
}

// wanted is what a run was to show.
type wanted struct {
	cpu    bool // nothing on the GPU
	all    bool // each program counts
	marked bool // those that are marked count
	missed bool // a marked one was not run
	// lenient: a program that used the GPU for other kernels is none to complain of.
	lenient bool
}

// worstOf is the exit code of a run. Where programs are marked, they alone count; else one that is proven is enough, unless all are asked
// for.
func worstOf(rows []tested, w wanted) int {
	var codes []int
	proved, started := false, false
	for _, r := range rows {
		if r.processes == 0 {
			continue
		}
		started = true
		code := exitCode(r.kind, r.usedGPU, w.cpu)
		if w.lenient && code == exit.OtherKernels {
			code = exit.Done
		}
		proved = proved || code == exit.Done
		if w.all || r.marked || !w.marked {
			codes = append(codes, code)
		}
	}
	if asked := w.all || !w.marked || slices.ContainsFunc(rows, func(r tested) bool { return r.marked }); w.missed || !started && asked {
		codes = append(codes, exit.Unproved)
	}
	if !w.all && !w.marked && proved {
		return exit.Done
	}
	return verify.Worst(codes...)
}

// printTested writes the table of the programs that cargo started.
func printTested(m *session.Machine, rows []tested) {
	if len(rows) == 0 {
		return
	}
	var table strings.Builder
	cells := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	line := func(words ...string) { _, _ = fmt.Fprintln(cells, strings.Join(words, "\t")) } // into memory
	line("program", "verdict", "kernels", "device")
	proved, must, done := 0, 0, 0
	for _, r := range rows {
		name, verdict := r.name, r.kind.String()
		if r.marked {
			name += " (marked)"
			must++
		}
		switch {
		case r.processes == 0:
			verdict = "not run"
		case r.processes > 1 && r.lost > 0:
			verdict += fmt.Sprintf(" (%d processes, %d failed or lost)", r.processes, r.lost)
		case r.processes > 1:
			verdict += fmt.Sprintf(" (%d processes)", r.processes)
		}
		if r.kind == verify.Proved && r.processes > 0 {
			proved++
			if r.marked {
				done++
			}
		}
		line(name, verdict, kernelsCell(r.kernels), cmp.Or(r.device, "-"))
	}
	_ = cells.Flush()
	programs := "1 program"
	if len(rows) != 1 {
		programs = fmt.Sprintf("%d programs", len(rows))
	}
	head := fmt.Sprintf("%d of %s ran a kernel on the GPU", proved, programs)
	if must > 0 {
		head += fmt.Sprintf("; of those that are marked, %d of %d", done, must)
	}
	print := m.Shell.Status
	if done < must {
		print = m.Shell.Alert
	}
	print("GPU", "%s", head)
	for l := range strings.Lines(table.String()) {
		print("", "%s", strings.TrimSuffix(l, "\n"))
	}
}

// kernelsCell names the first kernels and how often each was launched.
func kernelsCell(kernels []launched) string {
	const most = 3
	var parts []string
	for _, k := range kernels[:min(len(kernels), most)] {
		name := k.kernel
		if r := []rune(name); len(r) > 48 {
			name = string(r[:45]) + "..."
		}
		parts = append(parts, fmt.Sprintf("%s ×%d", name, k.launches))
	}
	if more := len(kernels) - most; more > 0 {
		parts = append(parts, fmt.Sprintf("%d more", more))
	}
	return cmp.Or(strings.Join(parts, ", "), "-")
}
