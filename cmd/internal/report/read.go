package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/finding"
	"gpubuild/buildenv/lazyregexp"
	"gpubuild/cmd/internal/receipt"
	"gpubuild/cmd/internal/session"
)

// answerSchema is that of every verb's envelope; receipts have their own.
var answerSchema = lazyregexp.New(`^gpubuild/([a-z-]+)/([0-9]+)$`)

// envelope is what is read of a file.
type envelope struct {
	Schema   string            `json:"schema"`
	Findings []finding.Finding `json:"findings"`
	Result   *json.RawMessage  `json:"result"`
	Results  []json.RawMessage `json:"results"` // of a history
}

// Read makes results of a file's bytes: of the envelope of a verb, of a history, or of a receipt, which is judged again. as says which.
func Read(data []byte, real receipt.Real) (list []Result, as Observation, err error) {
	data = bytes.TrimSpace(bytes.TrimPrefix(data, []byte("\ufeff"))) // PowerShell writes a byte order mark
	e, err := readEnvelope(data)
	switch {
	case err != nil:
		return nil, as, err
	case strings.HasPrefix(e.Schema, receipt.Family):
		r, err := receipt.Decode(data)
		if err != nil {
			return nil, as, err
		}
		one, err := OfReceipt(r, real)
		return []Result{one}, Observation{Receipt: true}, err
	case e.Schema != historySchema:
		one, err := e.result()
		return []Result{one}, as, err
	}
	for _, kept := range e.Results {
		one, err := readResult(kept)
		if err != nil {
			return nil, as, err
		}
		list = append(list, one)
	}
	return list, Observation{Earlier: true}, nil
}

// readResult is the result in the envelope of a verb.
func readResult(data []byte) (Result, error) {
	e, err := readEnvelope(data)
	if err != nil {
		return Result{}, err
	}
	return e.result()
}

func readEnvelope(data []byte) (e envelope, err error) {
	err = json.Unmarshal(data, &e)
	switch {
	case len(data) == 0:
		return e, errors.New("it is empty")
	case err != nil && !json.Valid(data) && data[0] == '{':
		return e, fmt.Errorf("it is damaged JSON: %w", err)
	case err != nil && !json.Valid(data):
		return e, errors.New("it is not JSON")
	case err != nil, e.Schema == "":
		return e, errors.New("it is JSON without a schema of gpubuild")
	}
	return e, nil
}

func (e envelope) result() (r Result, err error) {
	m := answerSchema.FindStringSubmatch(e.Schema)
	switch {
	case m == nil:
		return r, fmt.Errorf("its schema is %.60q, which is not gpubuild's", e.Schema)
	case m[2] != "1":
		return r, fmt.Errorf("its schema is %.60q; this gpubuild reads gpubuild/%s/1", e.Schema, m[1])
	case e.Result == nil:
		return r, fmt.Errorf("an answer of %.200q holds no result of a build or proof", m[1])
	}
	if err := json.Unmarshal(*e.Result, &r); err != nil {
		return r, fmt.Errorf("its result cannot be read: %w", err)
	}
	if r.Verb == "" || r.At.IsZero() {
		return r, errors.New("its result says neither what was done nor when")
	}
	r.Row = fmt.Sprintf("%.200s", r.Row)
	r.Findings = e.Findings
	for i := range r.Findings {
		r.Findings[i].Help = "" // follows from the id
	}
	for _, c := range r.Checks { // the state becomes the name of a class of the page
		if !slices.Contains([]string{Passed, Failed, Skipped}, c.State) {
			return r, fmt.Errorf("it has the state %.60q, which is none of %s, %s, %s", c.State, Passed, Failed, Skipped)
		}
	}
	return r, nil
}

// historySchema is the form of the file in which results are kept from one run of CI to the next.
const historySchema = "gpubuild/history/1"

// historyFile is its name in the directory that CI keeps.
const historyFile = "history.json"

// historyKept is how many results of a row are kept.
const historyKept = 50

// WriteHistory keeps the newest results of each row for the next run, as their envelopes, without what only their own run needs.
func WriteHistory(m *session.Machine, dir string, rows []Row) error {
	kept := []json.RawMessage{}
	for _, r := range rows {
		for i, o := range r.results[:min(len(r.results), historyKept)] {
			p := o.Result
			if !r.keepsKernels(i) {
				p.Kernels = nil
			}
			if p.At.IsZero() {
				continue // of a receipt without a result
			}
			p.Checks = slices.Clone(p.Checks)
			for i := range p.Checks {
				p.Checks[i].Detail = ""
			}
			answer, err := p.Answer(nil)
			if err != nil {
				return err
			}
			kept = append(kept, answer)
		}
	}
	data, err := json.Marshal(struct {
		Schema  string            `json:"schema"`
		Results []json.RawMessage `json:"results"`
	}{historySchema, kept})
	if err != nil {
		return err
	}
	if err := m.MakeDir(dir); err != nil {
		return err
	}
	file := m.Host.Join(m.Host.Abs(dir), historyFile)
	if err := m.Host.Check(file, buildenv.Entry); err != nil { // a pipe would wait for a reader
		return exit.Errorf(exit.Config, "remove it", "%w", err)
	}
	return m.WriteFile(file, append(data, '\n'), 0o644)
}
