// Package report renders the result of a run: the JSON envelope of every verb, SARIF, JUnit, annotations, a summary and a page. It decides
// nothing about the machine; a result is made elsewhere, once.
//
// It owns the envelope format "gpubuild/<verb>/1".
package report

import (
	"bytes"
	"encoding/json"
	"fmt"

	"gpubuild/buildenv/finding"
)

// Envelope renders a verb's machine-readable answer: schema, ok, findings (there even when empty) and the fields of a struct beside them.
func Envelope(verb string, ok bool, findings []finding.Finding, fields any) ([]byte, error) {
	if findings == nil {
		findings = []finding.Finding{}
	}
	head, err := json.Marshal(struct {
		Schema   string            `json:"schema"`
		OK       bool              `json:"ok"`
		Findings []finding.Finding `json:"findings"`
	}{"gpubuild/" + verb + "/1", ok, findings})
	if err != nil {
		return nil, err
	}
	if fields != nil {
		body, err := json.Marshal(fields)
		if err != nil {
			return nil, err
		}
		if len(body) < 2 || body[0] != '{' {
			return nil, fmt.Errorf("the fields of a %s answer are no JSON object", verb)
		}
		if string(body) != "{}" {
			head = append(append(head[:len(head)-1:len(head)-1], ','), body[1:]...)
		}
	}
	var out bytes.Buffer
	if err := json.Indent(&out, head, "", "  "); err != nil {
		return nil, err
	}
	out.WriteByte('\n')
	return out.Bytes(), nil
}

// Bytes words a size in the units that download tools use: 1 MB is 10^6 bytes.
func Bytes(n int64) string {
	switch {
	case n >= 1_000_000_000:
		return fmt.Sprintf("%.1f GB", float64(n)/1e9)
	case n >= 1_000_000:
		return fmt.Sprintf("%d MB", (n+500_000)/1_000_000)
	case n >= 1000:
		return fmt.Sprintf("%d kB", (n+500)/1000)
	}
	return fmt.Sprintf("%d bytes", n)
}
