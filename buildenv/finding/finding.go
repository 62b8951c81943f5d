// Package finding is the vocabulary of results: what was found, how grave it is and where. It decides nothing and prints nothing.
package finding

// Severities of a finding.
const (
	Error   = "error"
	Warning = "warning"
	Note    = "note"
)

// Finding is one thing that a person or a machine should know, with the place where it can be fixed.
type Finding struct {
	ID       string `json:"id"` // stable, such as features.unreached
	Severity string `json:"severity"`
	Message  string `json:"message"`
	Path     string `json:"path,omitempty"`
	Line     int    `json:"line,omitempty"` // from 1; 0 when there is none
	Fix      string `json:"fix,omitempty"`
	Evidence string `json:"evidence,omitempty"`
}
