// Package finding is the vocabulary of results: what was found, how grave it is and where. It decides nothing and prints nothing.
package finding

import (
	"cmp"
	_ "embed"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/BurntSushi/toml"
)

// Severities of a finding.
const (
	Error   = "error"
	Warning = "warning"
	Note    = "note"
)

// Finding is one thing that a person or a machine should know, with the place where it can be fixed.
type Finding struct {
	ID       string `json:"id"` // stable, such as features.unreached
	Severity string `json:"severity"`
	Message  string `json:"message"`
	Path     string `json:"path,omitempty"`
	Line     int    `json:"line,omitempty"`   // from 1; 0 when there is none
	Column   int    `json:"column,omitempty"` // from 1, in characters; 0 when it is not known
	Width    int    `json:"width,omitempty"`  // characters of that line; 0 when it is not known
	Code     string `json:"code,omitempty"`   // another tool's, such as rustc's E0308
	Label    string `json:"label,omitempty"`  // what that tool says of the place
	Fix      string `json:"fix,omitempty"`
	Brief    string `json:"-"` // the fix as a person reads it; empty: as it is
	Evidence string `json:"evidence,omitempty"`
	Help     string `json:"help,omitempty"` // the page that explains the id; filled in where findings are written
}

// Rule says what a finding's id means, whatever the message says about the case at hand, and how grave it is.
type Rule struct {
	ID       string `toml:"id"`
	Severity string `toml:"severity"`
	Title    string `toml:"title"`
	Help     string `toml:"help"`
}

//go:embed findings.toml
var table string

// Rules are the ids that gpubuild gives its findings: the one table of severities and explanations. It is read when the first finding is
// made.
var Rules = sync.OnceValue(func() []Rule {
	var file struct {
		Rule []Rule `toml:"rule"`
	}
	if err := toml.Unmarshal([]byte(table), &file); err != nil {
		panic("findings.toml: " + err.Error()) // it is part of the program
	}
	return file.Rule
})

// explained begins the ids of causes that `gpubuild explain` knows by its own table.
const explained = "explain."

// Known returns what an id of the table means.
func Known(id string) (Rule, bool) {
	i := slices.IndexFunc(Rules(), func(r Rule) bool { return r.ID == id })
	if i < 0 {
		return Rule{}, false
	}
	return Rules()[i], true
}

// RuleOf returns what an id means, also of one that explain's table has, or that another version of gpubuild wrote.
func RuleOf(id string) Rule {
	if r, known := Known(id); known {
		return r
	}
	if name, ok := strings.CutPrefix(id, explained); ok {
		return Rule{id, Error, "A known cause of a failed GPU build: " + name,
			"`gpubuild explain " + name + "` says more, with its source."}
	}
	return Rule{id, Warning, cmp.Or(id, "finding"), "See the message."}
}

// New is a finding with the severity that the table gives its id.
func New(id, message string) Finding { return Of(Finding{ID: id, Message: message}) }

// Of gives a finding the severity that the table has for its id.
func Of(f Finding) Finding {
	f.Severity = RuleOf(f.ID).Severity
	return f
}

// ExplainCommand prints what an id means.
func ExplainCommand(id string) string { return "gpubuild explain " + strings.TrimPrefix(id, explained) }

// Trace is what a run notes along the way: the checks that it made, and how each ended. It is for one goroutine.
type Trace struct {
	now    func() time.Time
	checks []Check
}

// Check is one question that a run asked and how it ended.
type Check struct {
	ID   string
	Err  error
	Took time.Duration
}

// NewTrace begins a trace now.
func NewTrace(now func() time.Time) *Trace { return &Trace{now: now} }

// Check runs one check and notes how it ended. Two checks of one name in a row are one.
func (t *Trace) Check(id string, check func() error) error {
	began := t.now()
	err := check()
	c := Check{ID: id, Err: err, Took: t.now().Sub(began)}
	if n := len(t.checks); n > 0 && t.checks[n-1].ID == id {
		c.Took += t.checks[n-1].Took
		t.checks = t.checks[:n-1]
	}
	t.checks = append(t.checks, c)
	return err
}

// Checks are the checks so far, in their order.
func (t *Trace) Checks() []Check { return t.checks }
