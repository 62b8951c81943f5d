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
	Line     int    `json:"line,omitempty"`   // from 1; 0 when there is none
	Column   int    `json:"column,omitempty"` // from 1, in characters; 0 when it is not known
	Width    int    `json:"width,omitempty"`  // characters of that line; 0 when it is not known
	Code     string `json:"code,omitempty"`   // another tool's, such as rustc's E0308
	Label    string `json:"label,omitempty"`  // what that tool says of the place
	Fix      string `json:"fix,omitempty"`
	Brief    string `json:"-"` // the fix as a person reads it; empty: as it is
	Evidence string `json:"evidence,omitempty"`
	Help     string `json:"help,omitempty"` // the page that explains the id; filled in where findings are written
}
