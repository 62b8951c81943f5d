// Package report renders the result of a run: the JSON envelope of every verb, SARIF, JUnit, annotations, a summary and a page. It decides
// nothing about the machine; a result is made elsewhere, once.
//
// It owns the envelope format "gpubuild/<verb>/1".
package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"

	"gpubuild/buildenv/finding"
	"gpubuild/cmd/internal/console"
	"gpubuild/cmd/internal/version"
)

// Envelope renders a verb's machine-readable answer: schema, ok, findings (an empty list if there are none) and the fields of a struct.
func Envelope(verb string, ok bool, findings []finding.Finding, fields any) ([]byte, error) {
	findings = append([]finding.Finding{}, findings...)
	for i, f := range findings {
		findings[i].Message, findings[i].Fix, findings[i].Help = console.Short(f.Message), console.Short(f.Fix), helpOf(f.ID)
	}
	body, err := object(struct {
		Schema   string            `json:"schema"`
		OK       bool              `json:"ok"`
		Findings []finding.Finding `json:"findings"`
	}{"gpubuild/" + verb + "/1", ok, findings}, fields)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := json.Indent(&out, []byte(userinfo.ReplaceAllString(string(body), "://…@")), "", "  "); err != nil {
		return nil, err
	}
	out.WriteByte('\n')
	return out.Bytes(), nil
}

// object is one JSON object with the fields of several; nil has none.
func object(parts ...any) ([]byte, error) {
	out := []byte{'{'}
	for _, part := range parts {
		if part == nil {
			continue
		}
		body, err := json.Marshal(part)
		if err != nil {
			return nil, err
		}
		if body[0] != '{' {
			return nil, fmt.Errorf("the fields of an answer are no JSON object: %T", part)
		}
		if len(out) > 1 && len(body) > len("{}") {
			out = append(out, ',')
		}
		out = append(out, body[1:len(body)-1]...)
	}
	return append(out, '}'), nil
}

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
