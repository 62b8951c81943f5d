package report

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"sort"
	"strings"

	"gpubuild/buildenv/finding"
)

// The part of SARIF 2.1.0 (OASIS, errata 01) that is written. There is one run a file: GitHub refuses more than twenty, so that a matrix
// uploads a file a row, told apart by automationDetails.id (docs.github.com, "SARIF support for code scanning").
type (
	sarifLog struct {
		Schema  string     `json:"$schema"`
		Version string     `json:"version"`
		Runs    []sarifRun `json:"runs"`
	}
	sarifRun struct {
		Tool        sarifTool            `json:"tool"`
		Automation  sarifID              `json:"automationDetails"`
		Invocations []sarifInvocation    `json:"invocations"`
		Bases       map[string]sarifBase `json:"originalUriBaseIds"`
		ColumnKind  string               `json:"columnKind"`
		Results     []sarifResult        `json:"results"`
	}
	sarifTool struct {
		Driver sarifDriver `json:"driver"`
	}
	sarifDriver struct {
		Name    string      `json:"name"`
		Version string      `json:"version"`
		Rules   []sarifRule `json:"rules"`
	}
	sarifRule struct {
		ID       string      `json:"id"`
		Short    sarifText   `json:"shortDescription"`
		Full     sarifText   `json:"fullDescription"`
		Help     sarifText   `json:"help"`
		Defaults sarifConfig `json:"defaultConfiguration"`
	}
	sarifConfig struct {
		Level string `json:"level"`
	}
	sarifText struct {
		Text string `json:"text"`
	}
	sarifID struct {
		ID string `json:"id"`
	}
	sarifInvocation struct {
		Successful bool `json:"executionSuccessful"`
		Code       int  `json:"exitCode"`
	}
	sarifBase struct {
		Description sarifText `json:"description"`
	}
	sarifResult struct {
		Rule         string            `json:"ruleId"`
		Index        int               `json:"ruleIndex"`
		Level        string            `json:"level"`
		Message      sarifText         `json:"message"`
		Locations    []sarifLocation   `json:"locations"`
		Fingerprints map[string]string `json:"partialFingerprints"`
	}
	sarifLocation struct {
		Physical sarifPhysical `json:"physicalLocation"`
	}
	sarifPhysical struct {
		Artifact sarifArtifact `json:"artifactLocation"`
		Region   sarifRegion   `json:"region"`
	}
	sarifArtifact struct {
		URI  string `json:"uri"`
		Base string `json:"uriBaseId,omitempty"`
	}
	sarifRegion struct {
		Line int `json:"startLine"`
	}
)

const (
	sourceRoot  = "%SRCROOT%"
	fingerprint = "gpubuildFinding/v1"
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
	run := sarifRun{
		Tool:        sarifTool{sarifDriver{Name: "gpubuild", Version: orWord(r.Gpubuild, "unknown"), Rules: []sarifRule{}}},
		Automation:  sarifID{strings.Join([]string{"gpubuild", segment(r.Verb), segment(r.Row)}, "/") + "/"},
		Invocations: []sarifInvocation{{Successful: r.OK(), Code: r.Code}},
		Bases:       map[string]sarifBase{sourceRoot: {sarifText{"the root of the checked-out sources"}}},
		ColumnKind:  "utf16CodeUnits",
		Results:     []sarifResult{},
	}
	for i, id := range ids {
		known[id] = i
		rule := RuleOf(id)
		run.Tool.Driver.Rules = append(run.Tool.Driver.Rules, sarifRule{
			ID: Plain(id), Short: sarifText{rule.Title}, Full: sarifText{rule.Title}, Help: sarifText{rule.Help},
			Defaults: sarifConfig{level(rule.Severity)},
		})
	}
	seen := map[string]int{}
	for _, f := range r.Findings {
		message := orWord(PlainLines(f.Message), f.ID)
		if f.Fix != "" {
			message += "\nhint: " + PlainLines(f.Fix)
		}
		if f.Path == "" {
			f.Path, f.Line = otherwise, 0
		}
		print := fingerprintOf(f)
		seen[print]++
		run.Results = append(run.Results, sarifResult{
			Rule: Plain(f.ID), Index: known[f.ID], Level: level(f.Severity), Message: sarifText{message},
			Locations:    []sarifLocation{{sarifPhysical{artifact(f.Path), sarifRegion{max(1, f.Line)}}}},
			Fingerprints: map[string]string{fingerprint: fmt.Sprintf("%s:%d", print, seen[print])},
		})
	}
	data, err := json.MarshalIndent(sarifLog{
		Schema: "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json", Version: "2.1.0",
		Runs: []sarifRun{run},
	}, "", "  ")
	return append(data, '\n'), err
}

func orWord(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// segment keeps a name from adding levels to the category that GitHub reads from automationDetails.id.
func segment(s string) string { return strings.ReplaceAll(Plain(s), "/", "-") }

func level(severity string) string {
	switch severity {
	case finding.Error, finding.Warning, finding.Note:
		return severity
	}
	return "none"
}

func artifact(path string) sarifArtifact {
	path = strings.ReplaceAll(strings.ToValidUTF8(path, "�"), `\`, "/")
	if !Absolute(path) {
		// A first segment with a colon would be read as a scheme (RFC 3986, 4.2); url.URL writes ./ before it.
		return sarifArtifact{URI: (&url.URL{Path: path}).String(), Base: sourceRoot}
	}
	if path[0] != '/' {
		path = "/" + path
	}
	return sarifArtifact{URI: (&url.URL{Scheme: "file", Path: path}).String()}
}

// numbers are versions and counts: they change without making another finding of it.
var numbers = regexp.MustCompile(`[0-9]+(\.[0-9]+)*`)

// fingerprintOf stays the same when lines above it, or versions in its words, have changed.
func fingerprintOf(f finding.Finding) string {
	sum := sha256.Sum256([]byte(strings.Join([]string{f.ID, strings.ReplaceAll(f.Path, `\`, "/"), numbers.ReplaceAllString(f.Message, "#")},
		"\x00")))
	return hex.EncodeToString(sum[:16])
}
