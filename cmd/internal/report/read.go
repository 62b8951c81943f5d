package report

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"gpubuild/buildenv/finding"
	"gpubuild/buildenv/lazyregexp"
)

// FormatError says why a file is no result that can be joined.
type FormatError struct{ Why string }

func (e *FormatError) Error() string { return e.Why }

// answerSchema is that of every verb's envelope; receipts have their own.
var answerSchema = lazyregexp.New(`^gpubuild/([a-z-]+)/([0-9]+)$`)

// Read makes results of a file's bytes: the envelope of a verb. other is asked about the JSON schemas that this package does not
// own; it may be nil.
func Read(data []byte, other func(schema string, data []byte) ([]Result, bool, error)) ([]Result, error) {
	var head struct {
		Schema   string            `json:"schema"`
		Findings []finding.Finding `json:"findings"`
		Result   *json.RawMessage  `json:"result"`
	}
	data = bytes.TrimSpace(bytes.TrimPrefix(data, []byte("\ufeff"))) // PowerShell writes a byte order mark
	if err := json.Unmarshal(data, &head); err != nil {
		switch {
		case len(data) == 0:
			return nil, &FormatError{"it is empty"}
		case json.Valid(data):
			return nil, &FormatError{"it is JSON without a schema of gpubuild"}
		case data[0] == '{':
			return nil, &FormatError{"it is damaged JSON: " + err.Error()}
		}
		return nil, &FormatError{"it is not JSON"}
	}
	if head.Schema == "" {
		return nil, &FormatError{"it is JSON without a schema of gpubuild"}
	}
	if other != nil {
		if list, known, err := other(head.Schema, data); known {
			return list, err
		}
	}
	if head.Schema == historySchema {
		return readHistory(data)
	}
	m := answerSchema.FindStringSubmatch(head.Schema)
	switch {
	case m == nil:
		return nil, &FormatError{fmt.Sprintf("its schema is %.60q, which is not gpubuild's", head.Schema)}
	case m[2] != "1":
		return nil, &FormatError{fmt.Sprintf("its schema is %.60q; this gpubuild reads gpubuild/%s/1", head.Schema, m[1])}
	case head.Result == nil:
		return nil, &FormatError{fmt.Sprintf("an answer of %q holds no result of a build or proof", m[1])}
	}
	var r Result
	if err := json.Unmarshal(*head.Result, &r); err != nil {
		return nil, &FormatError{"its result cannot be read: " + err.Error()}
	}
	if r.Verb == "" || r.At.IsZero() {
		return nil, &FormatError{"its result says neither what was done nor when"}
	}
	r.Findings = head.Findings
	for i := range r.Findings {
		r.Findings[i].Help = "" // follows from the id
	}
	if err := r.valid(); err != nil {
		return nil, err
	}
	return []Result{r}, nil
}

// valid refuses a word where only some have a meaning: it becomes the name of a class or of a column.
func (r Result) valid() error {
	known := func(what, is string, words ...string) error {
		if slices.Contains(words, is) {
			return nil
		}
		return &FormatError{fmt.Sprintf("it has the %s %.60q, which is none of %s", what, is, strings.Join(words, ", "))}
	}
	var errs []error
	for _, c := range r.Checks {
		errs = append(errs, known("state", c.State, Passed, Failed, Skipped))
	}
	for _, p := range r.Programs {
		if p.Proof != nil {
			errs = append(errs, known("verdict", p.Proof.Verdict, Proved, NotUsed, OtherKernels, NoDevice, Unproved))
		}
	}
	for _, f := range r.Findings {
		errs = append(errs, known("severity", string(f.Severity), string(finding.Error), string(finding.Warning), string(finding.Note)))
	}
	return cmp.Or(errs...)
}
