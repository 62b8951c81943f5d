package report

import (
	"encoding/json"
	"slices"

	"gpubuild/cmd/internal/session"
)

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
	return m.WriteFile(m.Host.Join(dir, historyFile), append(data, '\n'), 0o644)
}
