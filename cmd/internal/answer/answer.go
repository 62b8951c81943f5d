// Package answer has the machine-readable answers of the verbs that have no result: what --json writes after schema, ok and findings.
package answer

import (
	"gpubuild/buildenv"
	"gpubuild/cmd/internal/doctor"
	"gpubuild/features/graph"
	"gpubuild/toolchain/cuda"
)

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
