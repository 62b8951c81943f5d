package finding

import (
	"cmp"
	_ "embed"
	"slices"
	"strings"
	"sync"

	"github.com/BurntSushi/toml"
)

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
