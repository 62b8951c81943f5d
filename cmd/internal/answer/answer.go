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

// Completion is the answer of `completion`.
type Completion struct {
	For  string `json:"for"`
	Text string `json:"text"`
}

// Init is the answer of `init`.
type Init struct {
	Path string `json:"path"`
	Text string `json:"text"`
}

// Receipt is the answer of `receipt verify`.
type Receipt struct {
	File    string         `json:"file"`
	Binary  string         `json:"binary"`
	Wrong   []string       `json:"wrong"`
	Verdict verify.Verdict `json:"verdict"`
	Signed  bool           `json:"signed"` // always false: whoever can write the file can change it
	Time    time.Time      `json:"time,omitzero"`
	Origin  *origin.Origin `json:"origin,omitempty"`
	Asked   receipt.Asked  `json:"asked"`
}

// Doctor is the answer of `doctor`.
type Doctor struct {
	Checks []doctor.Check `json:"checks"`
}

// Exec is the answer of `exec`.
type Exec struct {
	Command []string `json:"command"`
	Code    int      `json:"code"`
	buildenv.Delta
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
