package cargo

import (
	"bytes"
	"encoding/json"
)

// Reasons of the messages that are understood (cargo's external-tools reference).
const (
	Artifact       = "compiler-artifact"
	ScriptExecuted = "build-script-executed"
)

// Message is one of cargo's JSON messages, as far as it is read. The reason says which fields it has.
type Message struct {
	Reason    string `json:"reason"`
	PackageID string `json:"package_id"`

	// compiler-artifact
	Target     Target   `json:"target"`
	Profile    Profile  `json:"profile"`
	Features   []string `json:"features"`
	Executable string   `json:"executable"` // empty unless it is one
	Filenames  []string `json:"filenames"`
	Fresh      bool     `json:"fresh"`

	// build-script-executed: sent for fresh scripts too, not for one that failed. One package sends several when its script ran for
	// several targets or feature sets; out_dir distinguishes them.
	LinkedLibs  []string `json:"linked_libs"`
	LinkedPaths []string `json:"linked_paths"`
	OutDir      string   `json:"out_dir"`

	Raw []byte `json:"-"` // the line without its end; valid until the callback returns
}

// Target is what a package's unit makes.
type Target struct {
	Kind    []string `json:"kind"`
	Name    string   `json:"name"`
	SrcPath string   `json:"src_path"`
}

// Profile is how a unit was compiled.
type Profile struct {
	Test bool `json:"test"`
}

// ParseMessage reads one line. It is a message only if it begins with { and has a reason that cargo may give: other JSON on the same stream
// is a program's own (external-tools.md). A message that is not understood has only Reason and Raw.
func ParseMessage(line []byte) (m Message, is bool) {
	text := bytes.TrimRight(line, "\r\n")
	var head struct {
		Reason string `json:"reason"`
	}
	if !bytes.HasPrefix(text, []byte("{")) || json.Unmarshal(text, &head) != nil {
		return m, false
	}
	switch head.Reason {
	case Artifact, ScriptExecuted:
		is = json.Unmarshal(text, &m) == nil
	case "build-finished", "compiler-message", "timing-info", "future-incompat", "future-incompat-report":
		is = true
	}
	m.Reason, m.Raw = head.Reason, text
	return m, is
}
