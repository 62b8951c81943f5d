package ci

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path"
	"strings"
)

// GitHubLimit is how many jobs a matrix may make in one run of a workflow (docs.github.com, "Actions limits").
const GitHubLimit = 256

// Actions that a workflow uses, by version.
const (
	checkoutAction = "actions/checkout@v5.0.0"
	cacheAction    = "actions/cache@v5.0.0"
	uploadAction   = "actions/upload-artifact@v4.6.2"
	downloadAction = "actions/download-artifact@v4.3.0"
)

// githubRow is what a job of the workflow reads of a row; what it does not read stays out of the job's context.
type githubRow struct {
	ID        string   `json:"id"`
	Runner    []string `json:"runner"`
	Container string   `json:"container"`
	CacheKey  string   `json:"cache_key"`
	NeedsGPU  bool     `json:"needs_gpu"`
	Features  string   `json:"features"`
	CUDA      string   `json:"cuda"`
	CUDNN     string   `json:"cudnn"`
	Arch      string   `json:"arch"`
	Platform  string   `json:"platform"`
	Profile   string   `json:"profile"`
}

// github is GitHub Actions.
type github struct{}

func (github) Name() string   { return "github" }
func (github) File() []string { return []string{".github", "workflows", "gpu.yml"} }
func (github) Keep() string   { return "" }

// Rows writes the matrix as lines for $GITHUB_OUTPUT: compile and proof, each a matrix for fromJSON, and how many rows each has. A row's
// text stays inside its line: JSON has no line feeds of its own.
func (github) Rows(m Matrix, _ Workflow) ([]byte, error) {
	if len(m.Rows) > GitHubLimit {
		return nil, &TooManyError{Have: len(m.Rows), Limit: GitHubLimit, Whose: "a GitHub workflow's matrix"}
	}
	var out bytes.Buffer
	for _, kind := range []string{Compile, Proof} {
		rows := []githubRow{}
		for _, r := range m.Of(kind) {
			rows = append(rows, githubRow{r.ID, r.Runner, r.Container, r.CacheKey, r.NeedsGPU, r.Features, r.CUDA, r.CUDNN, r.Arch,
				r.Platform, r.Profile})
		}
		data, err := json.Marshal(struct {
			Include []githubRow `json:"include"`
		}{rows})
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&out, "%s=%s\n%s_count=%d\n", kind, data, kind, len(rows))
	}
	return out.Bytes(), nil
}

// Workflow writes the workflow.
func (github) Workflow(w Workflow) []byte {
	var b strings.Builder
	p := func(format string, args ...any) { fmt.Fprintf(&b, format, args...) }
	p("%s", comment("Made by `gpubuild ci init github`; the rows are computed by `gpubuild ci matrix` from [matrix] in gpubuild.toml.\n"+
		"A row runs on your machine as it runs here: gpubuild ci run ROW", 0))
	if w.Install == "" {
		p("%s", comment("TO FILL IN: "+NoInstall, 0))
	}
	p("name: gpu\non:\n  push:\n  pull_request:\n  workflow_dispatch:\npermissions:\n  contents: read\n")
	p("defaults:\n  run:\n    shell: bash\n")
	if w.Dir != "" {
		p("    working-directory: %s\n", quote(w.Dir))
	}
	p("jobs:\n")
	p("  plan:\n    runs-on: ubuntu-24.04\n    timeout-minutes: 15\n    outputs:\n")
	for _, kind := range []string{Compile, Proof} {
		p("      %s: ${{ steps.matrix.outputs.%s }}\n      %s_count: ${{ steps.matrix.outputs.%s_count }}\n", kind, kind, kind, kind)
	}
	p("    steps:\n")
	w.begin(p, false)
	p("      - name: Matrix\n        id: matrix\n        run: gpubuild ci matrix --format github >> \"$GITHUB_OUTPUT\"\n")
	for _, kind := range []string{Compile, Proof} {
		p("  %s:\n    needs: plan\n", kind)
		limit := 120
		if kind == Compile {
			p("    if: needs.plan.outputs.compile_count != '0'\n")
		} else {
			p("%s", comment("A machine of yours must not run what a stranger's pull request says.", 4))
			p("    if: needs.plan.outputs.proof_count != '0' && (github.event_name != 'pull_request' || " +
				"github.event.pull_request.head.repo.full_name == github.repository)\n")
			limit = 240
		}
		p("    name: ${{ matrix.id }}\n    strategy:\n      fail-fast: false\n      matrix: ${{ fromJSON(needs.plan.outputs.%s) }}\n", kind)
		p("    runs-on: ${{ matrix.runner }}\n    container: ${{ matrix.container }}\n    timeout-minutes: %d\n", limit)
		p("    env:\n      GPUBUILD_ROW: ${{ matrix.id }}\n    steps:\n")
		w.begin(p, true)
		paths := []string{
			"~/.cargo/registry", "~/.cargo/git", "~/.cache/gpubuild", "~/AppData/Local/gpubuild", w.targetRoot() + "/${{ matrix.id }}",
		}
		p("      - name: Cache\n        uses: %s\n        with:\n          key: ${{ matrix.cache_key }}\n          path:%s\n", cacheAction,
			block(strings.Join(paths, "\n"), 12))
		for _, step := range StepNames(kind) {
			flags := ""
			if step == StepToolkit {
				flags = " --fetch"
			}
			p("      - name: %s\n        run: gpubuild ci run \"$GPUBUILD_ROW\" --only %s%s\n", title(step), step, flags)
		}
		p("      - name: Results\n        if: always()\n        uses: %s\n        with:\n          name: gpubuild-row-${{ matrix.id }}\n"+
			"          path: %s\n          if-no-files-found: ignore\n",
			uploadAction, quote(w.inDir(ResultsDir("${{ matrix.id }}"))))
	}
	p("%s", comment("One page of all rows: what is compiled, what is proven and on which device.", 2))
	p("  report:\n    needs: [plan, compile, proof]\n    if: always() && needs.plan.result == 'success'\n    runs-on: ubuntu-24.04\n" +
		"    timeout-minutes: 15\n    steps:\n")
	w.begin(p, false)
	p("      - uses: %s\n        with:\n          pattern: gpubuild-row-*\n          path: %s\n", downloadAction,
		quote(w.inDir("gpubuild-results")))
	p("      - name: Report\n        run:%s\n", block(reportScript, 10))
	p("      - uses: %s\n        with:\n          name: gpubuild-report\n          path: %s\n          if-no-files-found: error\n",
		uploadAction, quote(w.inDir("gpubuild-report.html")))
	p("%s", comment("One check for branch protection: red when a row failed or was not run, or when a proof was asked for and not "+
		"made.", 2))
	p("  gpu:\n    needs: [plan, compile, proof]\n    if: always()\n    runs-on: ubuntu-24.04\n    timeout-minutes: 5\n    defaults:\n" +
		"      run:\n        working-directory: .\n    env:\n")
	p("      PLAN: ${{ needs.plan.result }}\n      COMPILE: ${{ needs.compile.result }}\n" +
		"      COMPILE_COUNT: ${{ needs.plan.outputs.compile_count }}\n")
	p("      PROOF: ${{ needs.proof.result }}\n      PROOF_COUNT: ${{ needs.plan.outputs.proof_count }}\n")
	p("      STRANGER: ${{ github.event_name == 'pull_request' && github.event.pull_request.head.repo.full_name != github.repository }}\n")
	p("    steps:\n      - name: Every row, and what is proven\n        run:%s\n", block(gate, 10))
	return []byte(b.String())
}

// reportScript joins what the rows left. The matrix names the rows that left nothing, so that one that never ran is seen.
const reportScript = `mkdir -p gpubuild-results
gpubuild ci matrix --format json > gpubuild-results/matrix.json
gpubuild report gpubuild-results --html gpubuild-report.html`

// inDir is a path below the workspace's directory as an action reads it, which knows no working directory.
func (w Workflow) inDir(p string) string { return path.Join(w.Dir, p) }

// gate judges the results of the jobs: a job that was skipped is right only where it had no rows, or where a stranger's pull request may
// not reach the machines of the proof, and then it says so.
const gate = `[ "$PLAN" = success ] || { echo "::error::the matrix was not made: $PLAN"; exit 1; }
if [ "$COMPILE_COUNT" != 0 ] && [ "$COMPILE" != success ]; then
  echo "::error::rows that compile: $COMPILE"
  exit 1
fi
if [ "$PROOF_COUNT" = 0 ]; then
  echo "::notice::nothing is proven: gpubuild.toml has no [[matrix.prove]] that names a machine with a GPU"
elif [ "$PROOF" = skipped ] && [ "$STRANGER" = true ]; then
  echo "::warning::not proven: the pull request is from another repository, whose code does not run on your machines"
elif [ "$PROOF" != success ]; then
  echo "::error::rows that prove: $PROOF"
  exit 1
fi`

// begin writes the steps that every job starts with.
func (w Workflow) begin(p func(string, ...any), row bool) {
	if row {
		p("      - name: What a bare image lacks\n        if: matrix.container != ''\n        working-directory: /\n        run:%s\n",
			block(bareImage+"\necho \"$HOME/.cargo/bin\" >> \"$GITHUB_PATH\"", 10))
	}
	p("      - uses: %s\n        with:\n          persist-credentials: false\n", checkoutAction)
	if w.Setup != "" {
		p("      - name: Setup\n        run:%s\n", block(w.Setup, 10))
	}
	p("      - name: Install gpubuild\n        run:%s\n", block(w.install()+"\n"+goBin, 10))
}

// goBin makes what `go install` put into Go's own directory known to later steps: not every runner has that on PATH.
const goBin = `if command -v go >/dev/null; then echo "$(go env GOPATH)/bin" >> "$GITHUB_PATH"; fi`
