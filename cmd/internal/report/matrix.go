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
	Weight int // of two files about one run the heavier is looked at: receipt, JSON, JUnit
	Result Result
}

// Weights of observations.
const (
	ByJUnit = iota
	ByAnswer
	ByReceipt
)

// Status is what a row, or one side of it, comes to.
type Status string

// Statuses, the gravest first: in this order rows are shown.
const (
	StatusFailed   Status = "failed"   // it did not build, was stopped before, or an alert was to fail it
	StatusCPU      Status = "cpu"      // it ran on the CPU
	StatusOther    Status = "other"    // other kernels ran
	StatusUnproved Status = "unproved" // it was run and is not proven
	StatusNone     Status = "none"     // no result
	StatusCompiled Status = "compiled" // it builds; nothing was run
	StatusProven   Status = "proven"
)

var statuses = []Status{StatusFailed, StatusCPU, StatusOther, StatusUnproved, StatusNone, StatusCompiled, StatusProven}

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
	case StatusCompiled:
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

	at       time.Time
	latest   Result
	results  []Observation // the newest first
	expected ExpectedRow
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
func Join(list []Observation, expected []ExpectedRow) []Row {
	byRow := map[string][]Observation{}
	for _, o := range list {
		byRow[o.Result.Key()] = append(byRow[o.Result.Key()], o)
	}
	rows := []Row{}
	for id, results := range byRow {
		rows = append(rows, row(id, newestFirst(results)))
	}
	for _, e := range expected {
		if _, ok := byRow[e.ID]; !ok {
			byRow[e.ID] = nil
			rows = append(rows, Row{ID: e.ID, Status: StatusNone, Build: Side{Status: StatusNone}, Proof: Side{Status: StatusNone},
				Changed: []string{}})
		}
		for i := range rows {
			if rows[i].ID == e.ID {
				rows[i].expected = e
			}
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
	return r
}

func (s Set) empty() bool {
	return s.Toolkit == "" && s.Arch == "" && s.Driver == "" && s.Compiler == ""
}

// side finds the newest result that says something, and since when it has been so.
func side(results []Observation, of func(Result) (Status, string)) Side {
	out := Side{Status: StatusNone}
	for _, o := range results {
		s, why := of(o.Result)
		switch {
		case s == StatusNone:
		case out.Status == StatusNone:
			out = Side{Status: s, Why: why, At: o.Result.At, Since: o.Result.At, File: o.File}
		case s != out.Status:
			return out
		default:
			out.Since = o.Result.At
		}
	}
	return out
}

// buildOf says what a result says of the build: nothing, where none was tried.
func buildOf(r Result) (Status, string) {
	built := StatusNone
	for _, c := range r.Checks {
		switch c.ID {
		case CheckWatch:
			if c.State == Failed {
				return StatusFailed, c.Title() + ": " + c.Message
			}
		case CheckReach, CheckToolchain, CheckStale, CheckBuild:
			if r.Verb == "stale" {
				continue // a build would clean it
			}
			if c.State == Failed {
				return StatusFailed, strings.TrimSuffix(c.ID+": "+c.Message, ": ")
			}
			if c.ID == CheckBuild && c.State == Passed {
				built = StatusCompiled
			}
		default:
			if r.Verb == "junit" { // another tool's suite: its tests ran, so that it was built
				if c.State == Failed {
					return StatusFailed, c.Title() + ": " + c.Message
				}
				built = StatusCompiled
			}
		}
	}
	builds := slices.Contains([]string{"build", "check", "clippy", "run", "test", "bench"}, r.Verb)
	if built == StatusNone && r.Code != 0 && !verdictCode(r.Code) && builds {
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
		if s, _ := of(o.Result); s != StatusNone {
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
		if since := r.since(); !since.IsZero() {
			b.WriteString(" since " + stamp(since))
		}
		if why := r.why(); why != "" {
			b.WriteString(": " + Plain(why))
		}
		b.WriteByte('\n')
		for _, c := range r.Changed {
			fmt.Fprintf(&b, "  %-*s  changed: %s\n", width, "", Plain(c))
		}
	}
	return b.String()
}

// Summary is the rows in one line: "12 rows: 9 proven, 2 compiled, 1 failed".
func Summary(rows []Row) string {
	count := map[Status]int{}
	for _, r := range rows {
		count[r.Status]++
	}
	var parts []string
	for _, s := range []Status{StatusProven, StatusCompiled, StatusUnproved, StatusOther, StatusCPU, StatusFailed, StatusNone} {
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

func (r Row) since() time.Time { return r.deciding().Since }
func (r Row) why() string      { return r.deciding().Why }

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04") }
