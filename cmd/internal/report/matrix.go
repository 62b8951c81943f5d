package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Observation is one result and the file that it stood in.
type Observation struct {
	File   string
	Weight int // of two files about one run the heavier is looked at: a receipt, then JSON
	Result Result
}

// Weights of observations.
const (
	ByAnswer = iota
	ByReceipt
)

// Status is what a row, or one side of it, comes to.
type Status string

// Statuses, the gravest first: in this order rows are shown.
const (
	StatusFailed   Status = "failed"   // it did not build, was stopped before, or a check, an audit or an alert failed it
	StatusCPU      Status = "cpu"      // it ran on the CPU
	StatusOther    Status = "other"    // other kernels ran
	StatusUnproved Status = "unproved" // it was run and is not proven
	StatusNone     Status = "none"     // no result
	StatusChecked  Status = "checked"  // features, lint, doctor or an audit passed; nothing was built
	StatusCompiled Status = "compiled" // it builds; nothing was run
	StatusProven   Status = "proven"
)

var statuses = []Status{StatusFailed, StatusCPU, StatusOther, StatusUnproved, StatusNone, StatusChecked, StatusCompiled, StatusProven}

// bad says whether somebody has to look at it.
func (s Status) bad() bool { return slices.Index(statuses, s) < slices.Index(statuses, StatusNone) }

// Words is the status for people.
func (s Status) Words() string {
	switch s {
	case StatusCPU:
		return "ran on CPU"
	case StatusOther:
		return "other kernels"
	case StatusUnproved:
		return "not proven"
	case StatusNone:
		return "no result"
	}
	return string(s)
}

// Sign is the status' mark, which does not rest on colour.
func (s Status) Sign() string {
	switch s {
	case StatusFailed:
		return "✗"
	case StatusCPU, StatusOther:
		return "⚠"
	case StatusUnproved:
		return "?"
	case StatusCompiled, StatusChecked:
		return "●"
	case StatusProven:
		return "✓"
	}
	return "–"
}

// Side is what is known of a row's build or of its proof.
type Side struct {
	Status Status    `json:"status"`
	Why    string    `json:"why,omitempty"`
	At     time.Time `json:"at"`    // of the newest result that says it
	Since  time.Time `json:"since"` // of the oldest one since which it has been so without a break
	File   string    `json:"file,omitempty"`
	// Commits: the last one with another status, and the first one with this. Between them something changed.
	Before string `json:"before,omitempty"`
	First  string `json:"first,omitempty"`
}

// Row is everything that the files say of one row of a matrix.
type Row struct {
	ID       string   `json:"id"`
	Status   Status   `json:"status"`
	Build    Side     `json:"build"`
	Proof    Side     `json:"proof"`
	Features []string `json:"features,omitempty"`
	Set      Set      `json:"set"`
	Device   string   `json:"device,omitempty"` // that the newest proof was made on
	UUID     string   `json:"uuid,omitempty"`
	Receipt  bool     `json:"receipt"` // the newest proof has one, and it holds by its own evidence
	Changed  []string `json:"changed"` // against the result before; empty: nothing, or there is none
	Results  int      `json:"results"`
	Machine  string   `json:"machine,omitempty"` // of the result that decides the status
	// Of the last runs, at most thirty, so many failed. Flaky: failures and successes alternated.
	Runs   int  `json:"runs"`
	Failed int  `json:"failed"`
	Flaky  bool `json:"flaky"`

	at      time.Time
	latest  Result
	results []Observation // the newest first
}

// Joined is the answer of `report`.
type Joined struct {
	Rows []Row     `json:"rows"`
	Bad  []BadFile `json:"bad"`
}

// WithoutResult lists the expected rows of which there is no result.
func WithoutResult(rows []Row) (out []string) {
	for _, r := range rows {
		if r.Results == 0 {
			out = append(out, r.ID)
		}
	}
	return out
}

// Join puts results together by row, and the rows in the order of their gravity. Rows that were expected and have no result are there, too.
func Join(list []Observation, expected []string) []Row {
	byRow := map[string][]Observation{}
	for _, o := range list {
		byRow[o.Result.Key()] = append(byRow[o.Result.Key()], o)
	}
	rows := []Row{}
	for id, results := range byRow {
		rows = append(rows, row(id, newestFirst(results)))
	}
	for _, id := range expected {
		if _, ok := byRow[id]; !ok {
			byRow[id] = nil
			none := Side{Status: StatusNone}
			rows = append(rows, Row{ID: id, Status: StatusNone, Build: none, Proof: none, Changed: []string{}})
		}
	}
	slices.SortFunc(rows, func(a, b Row) int {
		return cmp.Or(slices.Index(statuses, a.Status)-slices.Index(statuses, b.Status), strings.Compare(a.ID, b.ID))
	})
	return rows
}

// newestFirst orders results by time; of several files about one run it keeps the heaviest.
func newestFirst(results []Observation) []Observation {
	slices.SortStableFunc(results, func(a, b Observation) int {
		return cmp.Or(b.Result.At.Compare(a.Result.At), b.Weight-a.Weight, strings.Compare(a.File, b.File))
	})
	type run struct {
		verb string
		at   int64
	}
	seen := map[run]bool{}
	out := results[:0:0]
	for _, o := range results {
		key := run{o.Result.Verb, o.Result.At.Unix()}
		if !o.Result.At.IsZero() && seen[key] {
			continue
		}
		seen[key] = true
		out = append(out, o)
	}
	return out
}

func row(id string, results []Observation) Row {
	r := Row{ID: id, Results: len(results), results: results, at: results[0].Result.At, latest: results[0].Result, Changed: []string{}}
	r.Build = side(results, buildOf)
	r.Proof = side(results, proofOf)
	for _, o := range results {
		if r.Features == nil && o.Result.Features != nil {
			r.Features = o.Result.Features.Asked
		}
		if r.Set.empty() && o.Result.Set != nil {
			r.Set = *o.Result.Set
		}
		if p := theProof(o.Result); p != nil && r.Device == "" && r.UUID == "" {
			if s, _ := proofOf(o.Result); s == r.Proof.Status && o.Result.At.Equal(r.Proof.At) {
				r.Device, r.UUID, r.Receipt = p.Device, p.UUID, o.Weight == ByReceipt
			}
		}
	}
	r.Changed = slices.Concat(r.Changed, changes(results, buildOf, buildFacts), changes(results, proofOf, proofFacts))
	r.Status = r.Build.Status
	// A build that fails now says more than a proof of what was built before it did.
	if r.Proof.Status != StatusNone && (r.Build.Status != StatusFailed || r.Proof.At.After(r.Build.At)) {
		r.Status = r.Proof.Status
	}
	decides := r.deciding().At
	for _, o := range slices.Backward(results) {
		if !o.Result.At.After(decides) {
			r.Machine = cmp.Or(o.Result.machine(), r.Machine)
		}
	}
	r.Runs, r.Failed, r.Flaky = steadiness(results)
	return r
}

// machine is the name of the machine that the result was made on.
func (r Result) machine() string {
	if r.Origin == nil {
		return ""
	}
	return r.Origin.Machine
}

// runsOf puts results of one run of CI together, the newest run first. Elsewhere each result is a run of its own.
func runsOf(results []Observation) (runs [][]Observation) {
	same := func(a, b Result) bool {
		return a.Origin != nil && b.Origin != nil && a.Origin.Run != "" && a.Origin.Run == b.Origin.Run &&
			a.Origin.Attempt == b.Origin.Attempt
	}
	for _, o := range results {
		if last := len(runs) - 1; last >= 0 && same(runs[last][0].Result, o.Result) {
			runs[last] = append(runs[last], o)
			continue
		}
		runs = append(runs, []Observation{o})
	}
	return runs
}

// decisive is the result that says what a run came to: of each command the last one counts, a failure before anything else.
func decisive(run []Observation, of func(Result) (Status, string)) (at Observation, status Status, why string) {
	status = StatusNone
	seen := map[string]bool{}
	for _, o := range run {
		s, text := of(o.Result)
		verb := o.Result.Verb + " " + strings.Join(o.Result.Command, " ")
		if s == StatusNone || seen[verb] {
			continue
		}
		seen[verb] = true
		rank, best := slices.Index(statuses, s), slices.Index(statuses, status)
		if status == StatusNone || s.bad() && rank < best || !s.bad() && !status.bad() && rank > best {
			at, status, why = o, s, text
		}
	}
	return at, status, why
}

// steadyRuns is how many runs count for whether a row comes and goes.
const steadyRuns = 30

// steadiness counts the runs that failed. A row that changed to and fro is flaky, even if a change of the sources explains it.
func steadiness(results []Observation) (runs, failed int, flaky bool) {
	turns, last := 0, Status("")
	for _, run := range runsOf(results) {
		_, s, _ := decisive(run, func(r Result) (Status, string) { return statusOf(r), "" })
		if s == StatusNone || runs == steadyRuns {
			continue
		}
		runs++
		if s.bad() {
			failed++
		}
		if last != "" && s.bad() != last.bad() {
			turns++
		}
		last = s
	}
	return runs, failed, turns > 1
}

// statusOf is what one result comes to.
func statusOf(r Result) Status {
	if s, _ := proofOf(r); s != StatusNone {
		if built, _ := buildOf(r); built != StatusFailed {
			return s
		}
	}
	s, _ := buildOf(r)
	return s
}

func (s Set) empty() bool {
	return s.Toolkit == "" && s.Arch == "" && s.Driver == "" && s.Compiler == ""
}

// side finds the newest run that says something, and since when it has been so. That checks passed says less than that something was built.
func side(results []Observation, of func(Result) (Status, string)) Side {
	out := sideOf(results, func(r Result) (Status, string) {
		if s, why := of(r); s != StatusChecked {
			return s, why
		}
		return StatusNone, ""
	})
	if out.Status == StatusNone {
		return sideOf(results, of)
	}
	return out
}

func sideOf(results []Observation, of func(Result) (Status, string)) Side {
	out := Side{Status: StatusNone}
	for _, run := range runsOf(results) {
		o, s, why := decisive(run, of)
		switch {
		case s == StatusNone:
			continue
		case out.Status == StatusNone:
			out = Side{Status: s, Why: why, At: o.Result.At, File: o.File}
		case s != out.Status:
			out.Before = commitOf(o.Result)
			return out
		}
		out.Since, out.First = o.Result.At, commitOf(o.Result)
	}
	return out
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
	builds := slices.Contains([]string{"build", "check", "clippy", "run", "test", "bench"}, r.Verb)
	if built == StatusNone && r.Code != 0 && !verdictCode(r.Code) && builds || checks {
		return StatusFailed, fmt.Sprintf("it ended with %d", r.Code)
	}
	return built, ""
}

// proofOf says what a result says of the proof: nothing, where nothing was run under the probe. Of several programs one that is proven
// suffices where the run itself was content, as in `test`.
func proofOf(r Result) (Status, string) {
	p := theProof(r)
	if p == nil {
		for _, c := range r.Checks { // a proof was demanded and could not be made
			if c.ID == CheckProof && c.State == Failed {
				return StatusUnproved, c.Message
			}
		}
		return StatusNone, ""
	}
	switch p.Verdict {
	case Proved:
		return StatusProven, ""
	case NotUsed:
		return StatusCPU, p.Why
	case OtherKernels:
		return StatusOther, p.Why
	}
	return StatusUnproved, p.Why
}

// theProof is the one that a result's proofs come to.
func theProof(r Result) *Proof {
	grave := []string{Proved, OtherKernels, NoDevice, Unproved, NotUsed}
	var best, worst *Proof
	for _, p := range r.Programs {
		if p.Proof == nil {
			continue
		}
		rank := slices.Index(grave, p.Proof.Verdict)
		if best == nil || rank < slices.Index(grave, best.Verdict) {
			best = p.Proof
		}
		if worst == nil || rank > slices.Index(grave, worst.Verdict) {
			worst = p.Proof
		}
	}
	if r.Code == 0 {
		return best
	}
	return worst
}

// fact is one thing that may change from one result to the next.
type fact struct{ name, value string }

func buildFacts(r Result) []fact {
	status, _ := buildOf(r)
	out := []fact{{"build", status.Words()}}
	if r.Features != nil {
		out = append(out, fact{"features", strings.Join(r.Features.Asked, ",")})
	}
	if r.Set != nil {
		out = append(out, fact{"toolkit", r.Set.Toolkit}, fact{"host compiler", r.Set.Compiler}, fact{"cuDNN", r.Set.CUDNN},
			fact{"arch", r.Set.Arch})
	}
	return out
}

func proofFacts(r Result) []fact {
	status, _ := proofOf(r)
	out := []fact{{"proof", status.Words()}}
	if p := theProof(r); p != nil {
		for _, f := range []fact{{"device", p.Device}, {"driver", p.Driver}, {"adapter", p.Adapter}} {
			if f.value != "" { // that there is none is what the status says
				out = append(out, f)
			}
		}
	}
	return out
}

// changes compares the newest result that says something with the one before.
func changes(results []Observation, of func(Result) (Status, string), facts func(Result) []fact) []string {
	var pair []Result
	for _, o := range results {
		if s, _ := of(o.Result); s != StatusNone && s != StatusChecked {
			pair = append(pair, o.Result)
		}
		if len(pair) == 2 {
			break
		}
	}
	if len(pair) < 2 {
		return nil
	}
	was := map[string]string{}
	for _, f := range facts(pair[1]) {
		was[f.name] = f.value
	}
	var out []string
	for _, f := range facts(pair[0]) {
		if old, ok := was[f.name]; ok && old != f.value {
			out = append(out, fmt.Sprintf("%s %s → %s", f.name, cmp.Or(old, "none"), cmp.Or(f.value, "none")))
		}
	}
	return out
}

// Table is the rows as text, for a terminal.
func Table(rows []Row) string {
	var b strings.Builder
	width := 0
	for _, r := range rows {
		width = max(width, len([]rune(Plain(r.ID))))
	}
	for _, r := range rows {
		fmt.Fprintf(&b, "%s %-*s  %s", r.Status.Sign(), width, Plain(r.ID), r.Status.Words())
		if r.Device != "" {
			b.WriteString(" on " + Plain(r.Device))
		}
		side := r.deciding()
		if !side.Since.IsZero() {
			b.WriteString(" since " + stamp(side.Since))
		}
		if where := strings.Join(r.place(), ", "); where != "" {
			b.WriteString(" (" + where + ")")
		}
		if side.Why != "" {
			b.WriteString(": " + Plain(side.Why))
		}
		b.WriteByte('\n')
		for _, c := range r.Changed {
			fmt.Fprintf(&b, "  %-*s  changed: %s\n", width, "", Plain(c))
		}
	}
	return b.String()
}

// place says between which commits a row changed, on which machine it was made, and whether it comes and goes.
func (r Row) place() (out []string) {
	if between := r.deciding().commits(); between != "" && r.Status.bad() {
		out = append(out, between)
	}
	if r.Machine != "" && r.Status.bad() {
		out = append(out, "on "+Plain(r.Machine))
	}
	if r.Flaky {
		out = append(out, fmt.Sprintf("failed %d of the last %d", r.Failed, r.Runs))
	}
	return out
}

// commits is the range in which the status changed: GOOD..BAD; with one commit only that.
func (s Side) commits() string {
	if s.Before == "" || s.First == "" {
		return shortCommit(cmp.Or(s.First, s.Before))
	}
	return shortCommit(s.Before) + ".." + shortCommit(s.First)
}

// Summary is the rows in one line: "12 rows: 9 proven, 2 compiled, 1 failed".
func Summary(rows []Row) string {
	count := map[Status]int{}
	for _, r := range rows {
		count[r.Status]++
	}
	var parts []string
	for _, s := range []Status{StatusProven, StatusCompiled, StatusChecked, StatusUnproved, StatusOther, StatusCPU, StatusFailed,
		StatusNone} {
		if n := count[s]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, s.Words()))
		}
	}
	return Count(len(rows), "row") + ": " + strings.Join(parts, ", ")
}

// deciding is the side that a row's status is of.
func (r Row) deciding() Side {
	if r.Proof.Status == r.Status && r.Status != StatusNone {
		return r.Proof
	}
	return r.Build
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04") }
