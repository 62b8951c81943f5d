package report

import (
	"cmp"
	_ "embed"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/BurntSushi/toml"

	"gpubuild/buildenv/finding"
	"gpubuild/cmd/internal/version"
)

// Rule says what a finding's id means, whatever the message says about the case at hand.
type Rule struct {
	ID       string `toml:"id"`
	Severity string `toml:"severity"`
	Title    string `toml:"title"`
	Help     string `toml:"help"`
}

//go:embed rules.toml
var rulesText string

// Rules are the ids that gpubuild gives its findings.
var Rules = sync.OnceValue(func() []Rule {
	var table struct {
		Rule []Rule `toml:"rule"`
	}
	if err := toml.Unmarshal([]byte(rulesText), &table); err != nil {
		panic("rules.toml: " + err.Error()) // it is part of the program
	}
	return table.Rule
})

// Known answers what an id of the table means.
func Known(id string) (Rule, bool) {
	i := slices.IndexFunc(Rules(), func(r Rule) bool { return r.ID == id })
	if i < 0 {
		return Rule{}, false
	}
	return Rules()[i], true
}

// RuleOf answers what an id means; one that is not in the table is described by its group.
func RuleOf(id string) Rule {
	if r, known := Known(id); known {
		return r
	}
	group, name, _ := strings.Cut(Plain(id), ".")
	if group == "explain" {
		return Rule{id, finding.Error, "A known cause of a failed GPU build: " + name, "`gpubuild explain " + name +
			"` says more, with its source."}
	}
	return Rule{id, finding.Warning, cmp.Or(Plain(id), "finding"), "See the message."}
}

// HelpURL is the address of the documentation of an id: a heading of docs/failures.md for a rule of explain, else of docs/findings.md.
func HelpURL(id string) string {
	if name, isRule := strings.CutPrefix(id, "explain."); isRule {
		return version.Docs() + "failures/#" + Anchor(name)
	}
	return version.Docs() + "findings/#" + Anchor(id)
}

// Anchor is what GitHub and Python-Markdown make of an id that is a heading.
func Anchor(id string) string {
	return strings.ToLower(strings.ReplaceAll(url.PathEscape(id), ".", ""))
}
