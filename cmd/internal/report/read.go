package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"gpubuild/buildenv/finding"
	"gpubuild/buildenv/lazyregexp"
)

// answerSchema is that of every verb's envelope; receipts have their own.
var answerSchema = lazyregexp.New(`^gpubuild/([a-z-]+)/([0-9]+)$`)

// Read makes results of a file's bytes: the envelope of a verb. other is asked about the JSON schemas that this package does not
// own; it may be nil.
func Read(data []byte, other func(schema string, data []byte) ([]Result, bool, error)) ([]Result, error) {
	var head struct {
		Schema   string            `json:"schema"`
		Findings []finding.Finding `json:"findings"`
		Result   *json.RawMessage  `json:"result"`
		Results  []json.RawMessage `json:"results"` // of a history
	}
	data = bytes.TrimSpace(bytes.TrimPrefix(data, []byte("\ufeff"))) // PowerShell writes a byte order mark
	if err := json.Unmarshal(data, &head); err != nil {
		switch {
		case len(data) == 0:
			return nil, errors.New("it is empty")
		case json.Valid(data):
			return nil, errors.New("it is JSON without a schema of gpubuild")
		case data[0] == '{':
			return nil, fmt.Errorf("it is damaged JSON: %w", err)
		}
		return nil, errors.New("it is not JSON")
	}
	if head.Schema == "" {
		return nil, errors.New("it is JSON without a schema of gpubuild")
	}
	if other != nil {
		if list, known, err := other(head.Schema, data); known {
			return list, err
		}
	}
	if head.Schema == historySchema {
		var all []Result
		for _, one := range head.Results {
			list, err := Read(one, nil)
			if err != nil {
				return nil, err
			}
			all = append(all, list...)
		}
		return all, nil
	}
	m := answerSchema.FindStringSubmatch(head.Schema)
	switch {
	case m == nil:
		return nil, fmt.Errorf("its schema is %.60q, which is not gpubuild's", head.Schema)
	case m[2] != "1":
		return nil, fmt.Errorf("its schema is %.60q; this gpubuild reads gpubuild/%s/1", head.Schema, m[1])
	case head.Result == nil:
		return nil, fmt.Errorf("an answer of %q holds no result of a build or proof", m[1])
	}
	var r Result
	if err := json.Unmarshal(*head.Result, &r); err != nil {
		return nil, fmt.Errorf("its result cannot be read: %w", err)
	}
	if r.Verb == "" || r.At.IsZero() {
		return nil, errors.New("its result says neither what was done nor when")
	}
	r.Findings = head.Findings
	for i := range r.Findings {
		r.Findings[i].Help = "" // follows from the id
	}
	for _, c := range r.Checks { // the state becomes the name of a class of the page
		if !slices.Contains([]string{Passed, Failed, Skipped}, c.State) {
			return nil, fmt.Errorf("it has the state %.60q, which is none of %s, %s, %s", c.State, Passed, Failed, Skipped)
		}
	}
	return []Result{r}, nil
}
