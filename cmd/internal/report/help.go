package report

import (
	"net/url"
	"strings"

	"gpubuild/buildenv/finding"
	"gpubuild/cmd/internal/version"
)

// helpURL is the address of the documentation of an id; empty: this gpubuild does not know where its documentation is published.
func helpURL(id string) string {
	if version.Docs() == "" {
		return ""
	}
	return version.Docs() + HelpPage(id)
}

// HelpPage is where the documentation explains an id: a heading of docs/failures.md for a rule of explain, else of docs/findings.md.
func HelpPage(id string) string {
	page := "findings/#"
	if name, isRule := strings.CutPrefix(id, "explain."); isRule {
		page, id = "failures/#", name
	}
	return page + strings.ToLower(strings.ReplaceAll(url.PathEscape(id), ".", "")) // as GitHub and Python-Markdown make anchors
}

// helpOf is where an id is explained: an address, or the command that prints the same.
func helpOf(id string) string {
	if address := helpURL(id); address != "" {
		return address
	}
	return finding.ExplainCommand(Sanitize(id))
}
