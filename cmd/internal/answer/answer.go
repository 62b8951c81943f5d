// Package answer has the machine-readable answers of the verbs that have no result: what --json writes after schema, ok and findings.
package answer

import (
	"time"

	"gpubuild/buildenv"
	"gpubuild/cmd/internal/doctor"
	"gpubuild/cmd/internal/origin"
	"gpubuild/cmd/internal/receipt"
	"gpubuild/features/graph"
	"gpubuild/gpu"
	"gpubuild/gpu/verify"
	"gpubuild/toolchain/cuda"
	"gpubuild/toolchain/install/tree"
)

// ToolchainList is the answer of `toolchain list`.
type ToolchainList struct {
	Installed []ToolchainEntry `json:"installed"`
	Toolkits  []cuda.Toolkit   `json:"toolkits"`
	Available []string         `json:"available,omitempty"` // releases that can be installed, and where they come from; only if asked for
	Default   string           `json:"default,omitempty"`   // the root of the one that builds try first where nobody names one
}

// ToolchainInstall is the answer of `toolchain install`.
type ToolchainInstall struct {
	Root string `json:"root"`
}

// ToolchainUse is the answer of `toolchain use`.
type ToolchainUse struct {
	CUDA string `json:"cuda"` // empty: none
	Path string `json:"path"`
}

// ToolchainRemove is the answer of `toolchain remove`.
type ToolchainRemove struct {
	Roots []string `json:"roots"`
}

// ToolchainEntry is a toolkit of the cache.
type ToolchainEntry struct {
	Name  string               `json:"name"`
	Root  string               `json:"root"`
	CUDA  gpu.Version          `json:"cuda"`
	Bytes int64                `json:"bytes"`
	Parts []tree.InstalledPart `json:"parts"`
	Stubs []string             `json:"link_stubs"` // libraries of which there is no more than a stub
}

// CacheDir is the answer of `cache dir`.
type CacheDir struct {
	Dir string `json:"dir"`
}

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
