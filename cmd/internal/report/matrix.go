package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"gpubuild/cmd/internal/origin"
	"gpubuild/gpu/verify"
	"gpubuild/toolchain/cargo"
)

// Observation is one result and the file that it stood in.
type Observation struct {
	File    string
	Receipt bool // the file is a receipt: of two files about one run it is the one that is looked at
	Earlier bool // it is of an earlier run, and says only what changed since
	Result  Result
}

// Status is what a row comes to.
type Status string

// Statuses, the gravest first: in this order rows are shown.
const (
	StatusFailed   Status = "failed"   // it did not build, was stopped before, or a check, an audit or an alert failed it
	StatusCPU      Status = "cpu"      // it ran on the CPU
	StatusOther    Status = "other"    // other kernels ran
	StatusUnproved Status = "unproved" // it was run and is not proven
	StatusNone     Status = "none"     // no result
	StatusChecked  Status = "checked"  // features, lint, doctor or an audit passed; nothing was built
	StatusCompiled Status = "compiled" // it builds; there is no program to run
	StatusNoProof  Status = "no-proof" // it builds; nothing was run, or there is no GPU, and no proof was demanded
	StatusProven   Status = "proven"
)

// statuses are all of them in order, with the words and the mark for people; the mark does not rest on colour.
var statuses = []struct {
	Status
	words, sign string
}{
	{StatusFailed, "failed", "✗"}, {StatusCPU, "ran on CPU", "⚠"}, {StatusOther, "other kernels", "⚠"},
	{StatusUnproved, "not proven", "?"}, {StatusNone, "no result", "–"}, {StatusChecked, "checked", "●"},
	{StatusCompiled, "compiled", "●"}, {StatusNoProof, "not proven", "○"}, {StatusProven, "proven", "✓"},
}

func (s Status) rank() int {
	for i, known := range statuses {
		if known.Status == s {
			return i
		}
	}
	return len(statuses)
}

// bad reports whether somebody has to look at it.
func (s Status) bad() bool { return s.rank() < StatusNone.rank() }

// Words is the status for people.
func (s Status) Words() string { return statuses[s.rank()].words }

// Sign is the status' mark.
func (s Status) Sign() string { return statuses[s.rank()].sign }

// Row is everything that the files say of one row of a matrix.
type Row struct {
	ID      string    `json:"id"`
	Project string    `json:"project,omitempty"`
	Status  Status    `json:"status"` // of the newest run
	Why     string    `json:"why,omitempty"`
	At      time.Time `json:"at"`    // of the result that says it
	Since   time.Time `json:"since"` // of the oldest one since which it has been so without a break
	File    string    `json:"file,omitempty"`
	// Commits: the last one with another status, and the first one with this. Between them something changed.
	Before   string   `json:"before,omitempty"`
	First    string   `json:"first,omitempty"`
	Machine  string   `json:"machine,omitempty"` // that the result was made on
	Device   string   `json:"device,omitempty"`  // of its proof
	UUID     string   `json:"uuid,omitempty"`
	Receipt  bool     `json:"receipt"` // the proof has one, and it holds by its own evidence
	Features []string `json:"features,omitempty"`
	Set      Set      `json:"set"`
	Results  int      `json:"results"`
	// Of the last runs, at most thirty, so many failed. Flaky: failures and successes alternated.
	Runs   int  `json:"runs"`
	Failed int  `json:"failed"`
	Flaky  bool `json:"flaky"`
	// Kernels that take more than at the commit before, those with the most registers more first; TooMuch: more than the project allows.
	Grown   []Grown `json:"grown,omitempty"`
	TooMuch bool    `json:"too_much,omitempty"`

	results []Observation // the newest first
}

// Joined is the answer of `report`.
type Joined struct {
	Rows []Row `json:"rows"`
}

// WithoutResult lists the expected rows of which this run has no result.
func WithoutResult(rows []Row, expected []string) (out []string) {
	for _, r := range rows {
		missing := func(r Row) bool { return len(r.results) == 0 || r.results[0].Earlier }
		present := func(o Row) bool { return o.ID == r.ID && !missing(o) } // of whichever project
		if slices.Contains(expected, r.ID) && missing(r) && !slices.ContainsFunc(rows, present) && !slices.Contains(out, r.ID) {
			out = append(out, r.ID)
		}
	}
	return out
}

// Join puts results together by row, and the rows in the order of their gravity. Rows that were expected and have no result are there, too.
// Each project has rows of its own. What names no project, such as `prove`, belongs to the only one of its row, if there is only one; else it
// its program separates it.
func Join(list []Observation, expected []string) []Row {
	byRow := map[string][]Observation{}
	for _, o := range list {
		id := o.Result.Key()
		byRow[id] = append(byRow[id], o)
	}
	rows := []Row{}
	for id, results := range byRow {
		projects, programs := map[string]bool{}, map[string]bool{}
		for _, o := range results {
			if o.Result.Name != "" {
				projects[o.Result.Name] = true
			} else if len(o.Result.Programs) > 0 {
				programs[o.Result.Programs[0].Name] = true
			}
		}
		byProject := map[string][]Observation{}
		for _, o := range results {
			name := o.Result.Name
			switch {
			case len(projects) == 1:
				name = slices.Sorted(maps.Keys(projects))[0]
			case name == "" && len(programs) > 1 && len(o.Result.Programs) > 0:
				name = o.Result.Programs[0].Name
			}
			byProject[name] = append(byProject[name], o)
		}
		for name, results := range byProject {
			r := row(id, newestFirst(results))
			r.Project = name
			rows = append(rows, r)
		}
	}
	for _, id := range expected {
		if _, ok := byRow[id]; !ok {
			byRow[id] = nil
			rows = append(rows, Row{ID: id, Status: StatusNone})
		}
	}
	order := func(r Row) int { // one that comes and goes is behind those that are red now
		if r.Flaky && !r.Status.bad() {
			return StatusUnproved.rank()
		}
		return r.Status.rank()
	}
	slices.SortFunc(rows, func(a, b Row) int {
		return cmp.Or(order(a)-order(b), strings.Compare(a.ID, b.ID), strings.Compare(a.Project, b.Project))
	})
	return rows
}

// newestFirst orders results by time, those of earlier runs last; of a receipt and another file about one run it keeps the receipt, with the
// machine's name from the other: a receipt names none.
func newestFirst(results []Observation) []Observation {
	rank := map[bool]int{true: 1}
	slices.SortStableFunc(results, func(a, b Observation) int {
		return cmp.Or(rank[a.Earlier]-rank[b.Earlier], b.Result.At.Compare(a.Result.At), rank[b.Receipt]-rank[a.Receipt],
			strings.Compare(a.File, b.File))
	})
	var kept []Observation
	seen := map[string]int{}
	for _, o := range results {
		run := commandOf(o.Result) + o.Result.At.UTC().String()
		i, again := seen[run]
		if !again {
			if !o.Result.At.IsZero() {
				seen[run] = len(kept)
			}
			kept = append(kept, o)
		} else if from := kept[i].Result.from(); from.Machine == "" && o.Result.from().Machine != "" {
			from.Machine = o.Result.from().Machine
			kept[i].Result.Origin = &from
		}
	}
	return kept
}

// steadyRuns is how many runs count for whether a row comes and goes.
const steadyRuns = 30

// row is what results come to, the newest first. A row that changed to and fro is flaky, even if a change of the sources explains it.
func row(id string, results []Observation) Row {
	r := Row{ID: id, Status: StatusNone, Results: len(results), results: results}
	last, turns, broken := StatusNone, 0, false
	for _, run := range runsOf(results) {
		o, s, why := decisive(run)
		switch {
		case s == StatusNone:
			continue
		case r.Status == StatusNone && !o.Earlier:
			r.Status, r.Why, r.At, r.File, r.Machine = s, why, o.Result.At, o.File, o.Result.from().Machine
			if p := theProof(o.Result).Proof; p != nil {
				r.Device, r.UUID, r.Receipt = p.Device, p.UUID, o.Receipt
			}
		case s != r.Status && !broken:
			broken, r.Before = true, o.Result.from().Commit
		}
		if !broken {
			r.Since, r.First = o.Result.At, o.Result.from().Commit
		}
		if r.Runs == steadyRuns {
			continue
		}
		r.Runs++
		if s.bad() {
			r.Failed++
		}
		if last != StatusNone && s.bad() != last.bad() {
			turns++
		}
		last = s
	}
	r.Flaky = turns > 1
	for _, o := range results {
		if r.Features == nil && o.Result.Features != nil {
			r.Features = o.Result.Features.Asked
		}
		if r.Set == (Set{}) && o.Result.Set != nil {
			r.Set = *o.Result.Set
		}
	}
	r.grown()
	return r
}

// from is the origin of a result; the zero value: it is not known.
func (r Result) from() origin.Origin {
	if r.Origin == nil {
		return origin.Origin{}
	}
	return *r.Origin
}

// commandOf is what a result is of; a later one of the same command replaces it.
func commandOf(r Result) string { return r.Verb + " " + strings.Join(r.Command, " ") }

// runsOf puts results of one run together, the newest run first: those with CI's number, or elsewhere those of one commit until a command
// comes again.
func runsOf(results []Observation) (runs [][]Observation) {
	same := func(run []Observation, next Observation) bool {
		a, b := run[0].Result.from(), next.Result.from()
		if run[0].Earlier != next.Earlier || a.Run != "" || b.Run != "" {
			return run[0].Earlier == next.Earlier && a.Run == b.Run && a.Attempt == b.Attempt
		}
		return a.Commit != "" && a.Commit == b.Commit &&
			!slices.ContainsFunc(run, func(o Observation) bool { return commandOf(o.Result) == commandOf(next.Result) })
	}
	for _, o := range results {
		if last := len(runs) - 1; last >= 0 && same(runs[last], o) {
			runs[last] = append(runs[last], o)
			continue
		}
		runs = append(runs, []Observation{o})
	}
	return runs
}

// decisive is the result that says what a run came to: of each command the last one counts, a failure before anything else.
func decisive(run []Observation) (at Observation, status Status, why string) {
	status = StatusNone
	seen := map[string]bool{}
	for _, o := range run {
		s, text := statusOf(o.Result)
		if s == StatusNone || seen[commandOf(o.Result)] {
			continue
		}
		seen[commandOf(o.Result)] = true
		if status == StatusNone || s.bad() && s.rank() < status.rank() || !s.bad() && !status.bad() && s.rank() > status.rank() {
			at, status, why = o, s, text
		}
	}
	return at, status, why
}

// statusOf is what one result comes to, and why: its proof says more than its build, except where that failed.
func statusOf(r Result) (Status, string) {
	built, why := buildOf(r)
	if proven, because := proofOf(r); proven != StatusNone && built != StatusFailed {
		return proven, because
	}
	return built, why
}

// buildOf says what a result says of the build, or of what was checked before or instead of one: nothing, where none was tried.
func buildOf(r Result) (Status, string) {
	built, checks := StatusNone, slices.Contains([]string{"features", "features-lint", "doctor", "audit"}, r.Verb)
	if checks && r.OK() {
		return StatusChecked, ""
	}
	for _, c := range r.Checks {
		switch {
		case c.ID == CheckProof || r.Verb == "stale": // proofOf has the one, and a build would clean the other
		case c.State == Failed:
			return StatusFailed, strings.TrimSuffix(c.Title()+": "+c.Message, ": ")
		case c.ID == CheckBuild && c.State == Passed:
			built = StatusCompiled
		}
	}
	builds := cargo.PurposeOf(r.Verb).Compiles()
	switch {
	case built == StatusNone && r.Code != 0 && !verify.IsCode(r.Code) && builds || checks:
		return StatusFailed, fmt.Sprintf("it ended with %d", r.Code)
	case r.Code == 0 && builds:
		return StatusCompiled, ""
	}
	return built, ""
}

// proofOf says what a result says of the proof: nothing, where there was nothing to prove. Of several programs one that is proven
// suffices where the run itself was content, as in `test`.
func proofOf(r Result) (Status, string) {
	p := theProof(r)
	if p.Proof == nil {
		status, why := StatusNone, ""
		for _, c := range r.Checks {
			switch {
			case c.ID == CheckProof && c.State == Failed: // it was demanded
				return StatusUnproved, c.Message
			case c.ID == CheckProof && c.State == Skipped && status == StatusNone:
				status, why = StatusNoProof, c.Message
			}
		}
		return status, why
	}
	status := cmp.Or(statusOfVerdict[kindOf(p.Proof)], StatusUnproved)
	switch {
	case status == StatusProven:
		return status, ""
	case r.Code == 0 && (status == StatusCPU || kindOf(p.Proof) == verify.NoDevice) && (r.Verb == "prove" || cargo.PurposeOf(r.Verb) == cargo.Runs):
		return StatusNoProof, p.Proof.Why // it was to run on the CPU, or no GPU was demanded
	case p.Test != "": // of many
		return status, p.Title() + ": " + p.Proof.Why
	}
	return status, p.Proof.Why
}

// statusOfVerdict is what a verdict comes to; any other one is not proven.
var statusOfVerdict = map[verify.Kind]Status{verify.Proved: StatusProven, verify.NotUsed: StatusCPU, verify.OtherKernels: StatusOther}

// kindOf is the verdict of a proof; one that is not known counts as unproved.
func kindOf(p *Proof) (k verify.Kind) {
	_ = k.UnmarshalText([]byte(p.Verdict))
	return k
}

// theProof is the program whose proof a result's proofs come to; without a proof: there is none.
func theProof(r Result) Program {
	var best, worst Program
	for _, p := range r.Programs {
		if p.Proof == nil {
			continue
		}
		if best.Proof == nil || kindOf(p.Proof).Rank() < kindOf(best.Proof).Rank() {
			best = p
		}
		if worst.Proof == nil || kindOf(p.Proof).Rank() > kindOf(worst.Proof).Rank() {
			worst = p
		}
	}
	if r.Code == 0 {
		return best
	}
	return worst
}

// Table is the rows as text, for a terminal.
func Table(rows []Row) string {
	var b strings.Builder
	width := 0
	for _, r := range rows {
		width = max(width, len([]rune(Sanitize(r.ID))))
	}
	for _, r := range rows {
		fmt.Fprintf(&b, "%s %-*s  %s", r.Status.Sign(), width, Sanitize(r.ID), r.Status.Words())
		if r.Device != "" {
			b.WriteString(" on " + Sanitize(r.Device))
		}
		if !r.Since.IsZero() {
			b.WriteString(" since " + stamp(r.Since))
		}
		var where []string
		if r.Status.bad() && r.Commits() != "" {
			where = append(where, r.Commits())
		}
		if r.Status.bad() && r.Machine != "" {
			where = append(where, "on "+Sanitize(r.Machine))
		}
		if r.Flaky {
			where = append(where, r.Unsteady())
		}
		if len(where) > 0 {
			b.WriteString(" (" + strings.Join(where, ", ") + ")")
		}
		if r.Why != "" {
			b.WriteString(": " + Sanitize(r.Why))
		}
		b.WriteByte('\n')
		for i, g := range r.Grown {
			if i == grownShown {
				fmt.Fprintf(&b, "    … and %d more kernels that grew\n", len(r.Grown)-i)
				break
			}
			fmt.Fprintf(&b, "    %s\n", g)
		}
	}
	return b.String()
}

// grownShown is how many kernels that grew are shown of a row.
const grownShown = 5

// Unsteady says how often a row failed.
func (r Row) Unsteady() string { return fmt.Sprintf("failed %d of the last %d", r.Failed, r.Runs) }

// Commits is the range in which the status changed: GOOD..BAD; with one commit only that.
func (r Row) Commits() string {
	if r.Before == "" || r.First == "" {
		return shortCommit(cmp.Or(r.First, r.Before))
	}
	return shortCommit(r.Before) + ".." + shortCommit(r.First)
}

// shortCommit is enough of a commit to know it by.
func shortCommit(commit string) string { return Sanitize(commit[:min(len(commit), 9)]) }

// Summary is the rows in one line: "12 rows: 9 proven, 2 compiled, 1 failed".
func Summary(rows []Row) string {
	count := map[string]int{}
	for _, r := range rows {
		count[r.Status.Words()]++
	}
	var parts []string
	for _, s := range slices.Backward(statuses) {
		if n := count[s.words]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, s.words))
			delete(count, s.words)
		}
	}
	return Count(len(rows), "row") + ": " + strings.Join(parts, ", ")
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04") }
