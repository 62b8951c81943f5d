// Package report renders the result of a run: the JSON envelope of every verb, SARIF, JUnit, annotations, a summary and a page. It decides
// nothing about the machine; a result is made elsewhere, once.
//
// It owns the envelope format "gpubuild/<verb>/1".
package report

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"

	"gpubuild/buildenv/finding"
	"gpubuild/buildenv/lazyregexp"
	"gpubuild/cmd/internal/audit"
	"gpubuild/cmd/internal/console"
	"gpubuild/cmd/internal/origin"
	"gpubuild/cmd/internal/proof"
	"gpubuild/cmd/internal/version"
	"gpubuild/gpu"
	"gpubuild/gpu/fatbin"
)

// Envelope renders a verb's machine-readable answer: schema, ok, findings (an empty list if there are none) and the fields of a struct.
func Envelope(verb string, ok bool, findings []finding.Finding, fields any) ([]byte, error) {
	findings = append([]finding.Finding{}, findings...)
	for i, f := range findings {
		findings[i].Message, findings[i].Fix, findings[i].Help = console.Short(f.Message), console.Short(f.Fix), helpOf(f.ID)
	}
	body, err := object(struct {
		Schema   string            `json:"schema"`
		OK       bool              `json:"ok"`
		Findings []finding.Finding `json:"findings"`
	}{"gpubuild/" + verb + "/1", ok, findings}, fields)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := json.Indent(&out, []byte(userinfo.ReplaceAllString(string(body), "://…@")), "", "  "); err != nil {
		return nil, err
	}
	out.WriteByte('\n')
	return out.Bytes(), nil
}

// object is one JSON object with the fields of several; nil has none.
func object(parts ...any) ([]byte, error) {
	out := []byte{'{'}
	for _, part := range parts {
		if part == nil {
			continue
		}
		body, err := json.Marshal(part)
		if err != nil {
			return nil, err
		}
		if body[0] != '{' {
			return nil, fmt.Errorf("the fields of an answer are no JSON object: %T", part)
		}
		if len(out) > 1 && len(body) > len("{}") {
			out = append(out, ',')
		}
		out = append(out, body[1:len(body)-1]...)
	}
	return append(out, '}'), nil
}

// helpURL is the address of the documentation of an id; empty: this gpubuild does not know where its documentation is published.
func helpURL(id string) string {
	if version.Docs() == "" {
		return ""
	}
	return version.Docs() + HelpPage(id)
}

// HelpPage is where the documentation explains an id: a heading of docs/failures.md for a rule of explain, else of docs/findings.md.
func HelpPage(id string) string {
	page := "findings/#"
	if name, isRule := strings.CutPrefix(id, "explain."); isRule {
		page, id = "failures/#", name
	}
	return page + strings.ToLower(strings.ReplaceAll(url.PathEscape(id), ".", "")) // as GitHub and Python-Markdown make anchors
}

// helpOf is where an id is explained: an address, or the command that prints the same.
func helpOf(id string) string {
	if address := helpURL(id); address != "" {
		return address
	}
	return finding.ExplainCommand(Sanitize(id))
}

// Result is what one run of gpubuild came to. It is made once; NDJSON, JSON, annotations, the step summary, SARIF, JUnit and the page of a
// matrix are renderers of it.
type Result struct {
	Verb     string         `json:"verb"`
	Row      string         `json:"row,omitempty"`    // of a matrix, by GPUBUILD_ROW
	Origin   *origin.Origin `json:"origin,omitempty"` // the commit, and the run of CI
	Gpubuild string         `json:"gpubuild"`         // the version that made it
	At       time.Time      `json:"at"`               // when it began, in UTC, in whole seconds
	Seconds  float64        `json:"seconds"`
	Command  []string       `json:"command"` // as Redact left it
	Project  string         `json:"project,omitempty"`
	Name     string         `json:"project_name,omitempty"` // of the workspace's root package, or its directory
	Code     int            `json:"exit_code"`
	Features *Features      `json:"features,omitempty"`
	Set      *Set           `json:"set,omitempty"`
	Stale    []string       `json:"stale,omitempty"`   // what cargo believed fresh, a line each
	Cleaned  []string       `json:"cleaned,omitempty"` // packages
	Programs []Program      `json:"programs,omitempty"`
	Checks   []Check        `json:"checks"`
	Kernels  []Kernel       `json:"kernels,omitempty"` // of all programs, as machine code
	// Growth is [scan] max-registers-growth of the project; nil: it says nothing.
	Growth *int         `json:"max_registers_growth,omitempty"`
	Watch  *gpu.Summary `json:"watch,omitempty"` // of the GPUs while the program ran

	Coverage *proof.Coverage `json:"coverage,omitempty"` // of the kernels, by the tests

	Findings []finding.Finding `json:"-"` // the envelope's own
}

// OK reports whether the run came to what was asked.
func (r Result) OK() bool { return r.Code == 0 }

// Features is whether the features arrived.
type Features struct {
	Asked []string `json:"asked"`
	Via   string   `json:"via"` // what cargo was asked
	Stops bool     `json:"stops"`
	Roots []Root   `json:"roots"`
}

// Kernel is one of a program's, as a toolkit compiled it for an architecture.
type Kernel struct {
	Name    string   `json:"name"`
	Arch    gpu.Arch `json:"arch"`
	Toolkit string   `json:"toolkit,omitempty"`
	fatbin.Resources
}

// AddKernels adds those that a file holds, several of one name, static ones say, each. What another file holds, too, is there once.
func (r *Result) AddKernels(file *fatbin.Report) {
	had, has := map[Kernel]int{}, map[Kernel]int{}
	for _, k := range r.Kernels {
		had[k]++
	}
	for _, im := range file.Images {
		for i, take := range im.Resources {
			k := Kernel{unnamed.ReplaceAllString(im.Kernels[i], "_GLOBAL__N_"), im.Arch, im.Toolkit, take}
			if im.Relocatable || take.Registers == 0 {
				continue // a device link decides
			}
			if has[k]++; has[k] > had[k] {
				r.Kernels = append(r.Kernels, k)
			}
		}
	}
}

// unnamed is how nvcc names an anonymous namespace: by a hash of the file's path and content, which each change of it changes.
var unnamed = lazyregexp.New(`_GLOBAL__N__[0-9a-f]{8}_`)

func (k Kernel) key() Kernel { return Kernel{Name: k.Name, Arch: k.Arch, Toolkit: k.Toolkit} }

// heaviest sorts kernels by their registers, with those that the compiler moved to the stack.
func heaviest(kernels []Kernel) []Kernel {
	return slices.SortedStableFunc(slices.Values(kernels), func(a, b Kernel) int {
		return cmp.Compare(b.Registers+b.Stack/4, a.Registers+a.Stack/4)
	})
}

// Root is one thing that is built and what of the GPU it links.
type Root struct {
	Package string   `json:"package"`
	Target  string   `json:"target"`
	Kind    string   `json:"kind,omitempty"`
	Reached bool     `json:"reached"`
	On      []string `json:"on"`  // crates with their version
	Off     []string `json:"off"` // linked without their GPU code

	Backends []string `json:"backends,omitempty"` // cuda, rocm, wgpu, vulkan, metal or the like; or only cpu
}

// Set is what was built with.
type Set struct {
	Toolkit    string `json:"toolkit,omitempty"` // version; empty: none was needed
	Root       string `json:"root,omitempty"`
	Compiler   string `json:"compiler,omitempty"`
	CUDNN      string `json:"cudnn,omitempty"`
	Arch       string `json:"arch,omitempty"`
	ArchOrigin string `json:"arch_origin,omitempty"`
	Driver     string `json:"driver,omitempty"`
}

// Program is one that was built or proven.
type Program struct {
	Name    string             `json:"name"`
	Path    string             `json:"path"`
	Source  string             `json:"-"` // its first source file
	Kind    string             `json:"kind,omitempty"`
	Package string             `json:"package,omitempty"`
	Test    string             `json:"test,omitempty"`   // the one that its arguments choose
	Code    string             `json:"code,omitempty"`   // the device code that it holds, in a line
	Marked  bool               `json:"marked,omitempty"` // the configuration says that it must use the GPU
	Proof   *Proof             `json:"proof,omitempty"`  // nil: it was not run
	Audit   []audit.ModeResult `json:"audit,omitempty"`
}

// Title is the program's name, with the test that its process ran.
func (p Program) Title() string { return strings.TrimSpace(p.Name + " " + p.Test) }

// NoGPU is why most proofs are not made.
const NoGPU = "no GPU here"

// Proof is what a run of a program under the probe showed.
type Proof struct {
	Verdict  string   `json:"verdict"`
	Why      string   `json:"why,omitempty"`
	Lines    []string `json:"lines,omitempty"`
	Device   string   `json:"device,omitempty"`
	UUID     string   `json:"uuid,omitempty"`
	Driver   string   `json:"driver,omitempty"`
	Backend  string   `json:"backend,omitempty"` // vulkan; empty: CUDA
	Adapter  string   `json:"adapter,omitempty"` // Vulkan: the device that was used, opened or found, with type and driver
	Launches uint64   `json:"launches"`          // that matched
	Host     string   `json:"host,omitempty"`    // the other machine that it ran on, with its Slurm job or pod
	Finding  string   `json:"finding,omitempty"` // the id of the finding that kept its result from coming back from another machine
	TotalNS  uint64   `json:"total_ns"`
	Kernels  []string `json:"kernels,omitempty"` // that matched, by name
}

// States of a check.
const (
	Passed  = "passed"
	Failed  = "failed"
	Skipped = "skipped"
)

// Ids of the checks that a run makes. A proof's is CheckProof and the program's name.
const (
	CheckReach     = "reach"
	CheckToolchain = "toolchain"
	CheckStale     = "stale"
	CheckBuild     = "build"
	CheckCode      = "device-code" // what was built is from the tools and for the architecture that were asked for
	CheckProof     = "proof"
	CheckCoverage  = "coverage" // of the kernels, by the tests
)

// Check is one question and its answer.
type Check struct {
	ID      string  `json:"id"`
	Name    string  `json:"name,omitempty"` // of the program, in a proof
	State   string  `json:"state"`
	Message string  `json:"message,omitempty"` // one line: why it failed or was skipped, or what it found
	Detail  string  `json:"detail,omitempty"`
	Seconds float64 `json:"seconds"`
}

// Title is the check's name for people.
func (c Check) Title() string {
	if c.Name != "" {
		return c.ID + " " + c.Name
	}
	return c.ID
}

// Place is what CI keeps a result under: the row, or the verb. It depends on nothing that a failure leaves unknown.
func (r Result) Place() string { return cmp.Or(r.Row, r.Verb) }

// Key names the row that a result belongs to where no id was given: the same question asked again has the same key.
func (r Result) Key() string {
	if r.Row != "" {
		return r.Row
	}
	facts := []fact{{"", r.Verb}}
	if r.Features != nil {
		facts = append(facts, fact{"", strings.Join(r.Features.Asked, ",")})
	}
	if r.Set != nil {
		facts = append(facts, fact{"cuda-", r.Set.Toolkit}, fact{"", r.Set.Arch})
	}
	if len(words(facts)) == 1 && len(r.Programs) == 1 {
		facts = append(facts, fact{"", r.Programs[0].Name})
	}
	return strings.Join(words(facts), " ")
}

// Answer renders a result as the envelope of its verb; fields are those of the verb's own answer, or nil.
func (r Result) Answer(fields any) ([]byte, error) {
	r.Checks, r.Command = append([]Check{}, r.Checks...), append([]string{}, r.Command...) // lists that are always there
	own, err := object(struct {
		Result Result `json:"result"`
	}{r}, fields)
	if err != nil {
		return nil, err
	}
	return Envelope(r.Verb, r.OK(), r.Findings, json.RawMessage(own))
}

// Sanitize makes one line of foreign text: no bytes that are no text, no control characters, no marks that turn the direction of writing.
func Sanitize(s string) string { return strings.Join(strings.Fields(SanitizeLines(s)), " ") }

// SanitizeLines is Sanitize for a text of several lines.
func SanitizeLines(s string) string {
	lines := strings.Split(strings.NewReplacer("\r\n", "\n", "\r", "\n", "\t", " ").Replace(strings.ToValidUTF8(s, "�")), "\n")
	for i, l := range lines {
		lines[i] = strings.TrimRight(strings.Map(func(r rune) rune {
			// Bidirectional controls reorder what a reader sees (CVE-2021-42574); U+FFFE, U+FFFF are no characters of XML 1.0.
			if unicode.IsControl(r) || r >= 0x202A && r <= 0x202E || r >= 0x2066 && r <= 0x2069 || r == 0x200E || r == 0x200F ||
				r == 0xFFFE || r == 0xFFFF {
				return -1
			}
			return r
		}, l), " ")
	}
	return strings.Join(lines, "\n")
}

// cut shortens a text to as many bytes as a message has, at a rune, and says so.
func cut(s string) string {
	if len(s) <= messageLimit {
		return s
	}
	return strings.ToValidUTF8(s[:messageLimit-len("…")], "") + "…"
}

// Count words a number of things.
func Count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
