package report

import (
	"encoding/json"
	"slices"

	"gpubuild/buildenv/finding"
	"gpubuild/cmd/internal/session"
)

// historySchema is the form of the file in which results are kept from one run of CI to the next.
const historySchema = "gpubuild/history/1"

// historyFile is its name in the directory that CI keeps.
const historyFile = "history.json"

// historyKept is how many results of a row are kept.
const historyKept = 50

// past is one result of the history, with the findings that its envelope would hold.
type past struct {
	Result
	Findings []finding.Finding `json:"findings"`
}

// readHistory makes results of a history.
func readHistory(data []byte) ([]Result, error) {
	var h struct {
		Results []past `json:"results"`
	}
	if err := json.Unmarshal(data, &h); err != nil {
		return nil, &FormatError{"its results cannot be read: " + err.Error()}
	}
	out := make([]Result, 0, len(h.Results))
	for _, p := range h.Results {
		p.Result.Findings = p.Findings
		out = append(out, p.Result)
	}
	return out, nil
}

// WriteHistory keeps the newest results of each row for the next run, without what only their own run needs.
func WriteHistory(m *session.Machine, dir string, rows []Row) error {
	kept := []past{}
	for _, r := range rows {
		for _, o := range r.results[:min(len(r.results), historyKept)] {
			p := past{o.Result, o.Result.Findings}
			p.Command, p.Cleaned, p.Stale = []string{}, nil, nil
			if p.Features != nil {
				p.Features = &Features{Asked: p.Features.Asked, Via: p.Features.Via, Roots: []Root{}}
			}
			p.Checks = slices.Clone(p.Checks)
			for i := range p.Checks {
				p.Checks[i].Detail = ""
			}
			kept = append(kept, p)
		}
	}
	data, err := json.Marshal(struct {
		Schema  string `json:"schema"`
		Results []past `json:"results"`
	}{historySchema, kept})
	if err != nil {
		return err
	}
	if err := m.MakeDir(dir); err != nil {
		return err
	}
	return m.WriteFile(m.Host.Join(dir, historyFile), append(data, '\n'), 0o644)
}
