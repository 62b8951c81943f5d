// Package answer has the machine-readable answers of the verbs that have no result: what --json writes after schema, ok and findings.
package answer

import (
	"time"

	"gpubuild/buildenv"
	"gpubuild/cmd/internal/doctor"
	"gpubuild/cmd/internal/origin"
	"gpubuild/cmd/internal/receipt"
	"gpubuild/features/graph"
	"gpubuild/gpu/verify"
	"gpubuild/toolchain/cuda"
)

// Receipt is the answer of `receipt verify`.
type Receipt struct {
	File    string         `json:"file"`
	Binary  string         `json:"binary"`
	Wrong   []string       `json:"wrong"`
	Verdict verify.Verdict `json:"verdict"`
	Signed  bool           `json:"signed"`        // by --signer; false without it: whoever can write the file can change it
	Key     string         `json:"key,omitempty"` // that signed it: its type and fingerprint
	Time    time.Time      `json:"time,omitzero"`
	Origin  *origin.Origin `json:"origin,omitempty"`
	Asked   receipt.Asked  `json:"asked"`
}

// Doctor is the answer of `doctor`.
type Doctor struct {
	Checks []doctor.Check `json:"checks"`
}

// Env is the answer of `env`.
type Env struct {
	buildenv.Delta
	Toolkit *cuda.Toolkit `json:"toolkit,omitempty"`
}

// Why is the answer of `features --why`.
type Why struct {
	Reasons []graph.Reason `json:"reasons"`
}
