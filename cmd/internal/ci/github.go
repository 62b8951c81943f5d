package ci

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// GitHubLimit is how many jobs a matrix may make in one run of a workflow (docs.github.com, "Actions limits").
const GitHubLimit = 256

// githubRow is what a job of the workflow reads of a row; what it does not read stays out of the job's context.
type githubRow struct {
	ID          string `json:"id"`
	Runner      any    `json:"runner"` // a label, or several
	Container   string `json:"container,omitempty"`
	CacheKey    string `json:"cache_key,omitempty"`
	CachePrefix string `json:"cache_prefix,omitempty"`
	ToolkitKey  string `json:"toolkit_key,omitempty"`
	KernelKey   string `json:"kernel_key,omitempty"`
	Fetch       bool   `json:"fetch,omitempty"`
	Packed      bool   `json:"archived,omitempty"`
	Compile     string `json:"compile,omitempty"`
	Gpubuild    string `json:"gpubuild,omitempty"` // the program in the archive
}

// github is GitHub Actions.
type github struct{}

func (github) Name() string   { return "github" }
func (github) File() []string { return []string{".github", "workflows", "gpu.yml"} }
func (github) Keep() string   { return "" }

func (github) Variable() string { return "GITHUB_ACTIONS" }

// Section is a group (docs.github.com, "Workflow commands", grouping log lines).
func (github) Section(title string, _ time.Time) (begin, end string) {
	return "::group::" + title + "\n", "::endgroup::\n"
}

// Rows writes the matrix as lines for $GITHUB_OUTPUT: compile and proof, each a matrix for fromJSON, how many rows each has, and how many
// are
// withheld from a fork. A row's text stays inside its line: JSON has no line feeds of its own.
func (github) Rows(m Matrix, _ Workflow) ([]byte, error) {
	if len(m.Rows) > GitHubLimit {
		return nil, tooMany(len(m.Rows), GitHubLimit, "a GitHub workflow's matrix")
	}
	if err := m.pinned(Workflow{}); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	for _, kind := range []string{Compile, Proof} {
		rows := []githubRow{}
		for _, r := range m.Of(kind) {
			row := githubRow{ID: r.ID, Runner: r.Runner, Container: r.Container, CacheKey: r.CacheKey, CachePrefix: r.cachePrefix(),
				ToolkitKey: r.toolkitKey(), KernelKey: r.kernelKey(), Fetch: r.Toolkit == Fetch, Packed: r.Packed, Compile: r.Compile}
			if len(r.Runner) == 1 {
				row.Runner = r.Runner[0]
			}
			if kind == Proof {
				row.Gpubuild = "gpubuild"
				if strings.HasPrefix(r.Platform, "windows-") {
					row.Gpubuild += ".exe"
				}
			}
			rows = append(rows, row)
		}
		data, err := json.Marshal(struct {
			Include []githubRow `json:"include"`
		}{rows})
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&out, "%s=%s\n%s_count=%d\n", kind, data, kind, len(rows))
	}
	fmt.Fprintf(&out, "withheld=%d\n", m.Withheld())
	return out.Bytes(), nil
}

// Workflow writes the workflow.
func (github) Workflow(w Workflow) []byte { return w.render("github.yml.tmpl", w) }
