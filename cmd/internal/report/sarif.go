package report

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"sort"
	"strings"

	"gpubuild/buildenv/finding"
	"gpubuild/buildenv/lazyregexp"
)

// record is an object of SARIF 2.1.0 (OASIS, errata 01), by the names of its properties; a test validates the file against its schema.
type record map[string]any

func sarifText(text string) record { return record{"text": text} }

const (
	rootVariable = "%SRCROOT%"
	fingerprint  = "gpubuildFinding/v1"
)

// SARIF renders the findings of a result. Paths are relative to the source root, with slashes; a finding without a place is put on
// otherwise, because GitHub shows no result without one.
func (r Result) SARIF(otherwise string) ([]byte, error) {
	var ids []string
	known := map[string]int{}
	for _, f := range r.Findings {
		if _, ok := known[f.ID]; !ok {
			known[f.ID] = 0
			ids = append(ids, f.ID)
		}
	}
	sort.Strings(ids)
	rules, results := []record{}, []record{}
	for i, id := range ids {
		known[id] = i
		rule := finding.RuleOf(id)
		title := Sanitize(rule.Title)
		one := record{
			"id": Sanitize(id), "shortDescription": sarifText(title), "fullDescription": sarifText(title),
			"help":                 sarifText(Sanitize(rule.Help) + " More: " + finding.ExplainCommand(Sanitize(id))),
			"defaultConfiguration": record{"level": rule.Severity},
		}
		if address := helpURL(id); address != "" {
			one["helpUri"] = address
		}
		rules = append(rules, one)
	}
	seen := map[string]int{}
	for _, f := range r.Findings {
		if f.Path == "" {
			f.Path, f.Line, f.Column, f.Width = otherwise, 0, 0, 0
		}
		print := fingerprintOf(f)
		seen[print]++
		results = append(results, record{
			"ruleId": Sanitize(f.ID), "ruleIndex": known[f.ID], "level": f.Severity, "message": sarifText(says(f)),
			"locations":           []record{{"physicalLocation": record{"artifactLocation": artifact(f.Path), "region": region(f)}}},
			"partialFingerprints": record{fingerprint: fmt.Sprintf("%s:%d", print, seen[print])},
		})
	}
	// A file has one run: GitHub rejects more than twenty, so a matrix uploads one file per row, and automationDetails.id distinguishes
	// them (docs.github.com, "SARIF support for code scanning").
	data, err := json.MarshalIndent(record{
		"$schema": "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json", "version": "2.1.0",
		"runs": []record{{
			"tool":               record{"driver": record{"name": "gpubuild", "version": cmp.Or(r.Gpubuild, "unknown"), "rules": rules}},
			"automationDetails":  record{"id": strings.Join([]string{"gpubuild", segment(r.Verb), segment(r.Row)}, "/") + "/"},
			"invocations":        []record{{"executionSuccessful": r.OK(), "exitCode": r.Code}},
			"originalUriBaseIds": record{rootVariable: record{"description": sarifText("the root of the checked-out sources")}},
			"columnKind":         "utf16CodeUnits",
			"results":            results,
		}},
	}, "", "  ")
	return append(data, '\n'), err
}

// segment keeps a name from adding levels to the category that GitHub reads from automationDetails.id.
func segment(s string) string { return strings.ReplaceAll(Sanitize(s), "/", "-") }

func region(f finding.Finding) record {
	out := record{"startLine": max(1, f.Line)}
	if f.Column > 0 {
		out["startColumn"] = f.Column
	}
	if f.Column > 0 && f.Width > 0 {
		out["endColumn"] = f.Column + f.Width
	}
	return out
}

func artifact(path string) record {
	path = strings.ReplaceAll(strings.ToValidUTF8(path, "\uFFFD"), `\`, "/")
	if !Absolute(path) {
		// A first segment with a colon would be read as a scheme (RFC 3986, 4.2); url.URL writes ./ before it.
		return record{"uri": (&url.URL{Path: path}).String(), "uriBaseId": rootVariable}
	}
	if path[0] != '/' {
		path = "/" + path
	}
	return record{"uri": (&url.URL{Scheme: "file", Path: path}).String()}
}

// numbers are versions and counts: they change without making another finding of it.
var numbers = lazyregexp.New(`[0-9]+(\.[0-9]+)*`)

// fingerprintOf stays the same when lines above it, or versions in its words, have changed.
func fingerprintOf(f finding.Finding) string {
	sum := sha256.Sum256([]byte(strings.Join([]string{f.ID, strings.ReplaceAll(f.Path, `\`, "/"), numbers.ReplaceAllString(f.Message, "#")},
		"\x00")))
	return hex.EncodeToString(sum[:16])
}
