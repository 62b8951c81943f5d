package app

import (
	"sort"
	"strings"
	"time"

	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/finding"
	"gpubuild/buildenv/stale"
	"gpubuild/cmd/internal/report"
	"gpubuild/cmd/internal/version"
	"gpubuild/gpu"
	"gpubuild/gpu/fatbin"
)

// rowVariable names the row of a matrix that this run is; `gpubuild ci run` sets it.
const rowVariable = "GPUBUILD_ROW"

func (j *journey) featuresResult() *report.Features {
	if j.reach == nil {
		return nil
	}
	f := &report.Features{Asked: j.askedFeatures(), Via: j.reach.Via, Stops: j.reach.Stops, Roots: []report.Root{}}
	for _, r := range j.reach.Roots {
		on, off := onOff(r)
		f.Roots = append(f.Roots, report.Root{Package: r.Package, Target: r.Target, Kind: r.Kind, Reached: r.Reached, On: append([]string{}, on...), Off: append([]string{}, off...)})
	}
	return f
}

// askedFeatures are those of the command line, or else the GPU features that are on in the roots.
func (j *journey) askedFeatures() []string {
	out := []string{}
	for _, f := range j.Line.Features {
		for _, name := range strings.FieldsFunc(f, func(r rune) bool { return r == ',' || r == ' ' }) {
			if !contains(out, name) {
				out = append(out, name)
			}
		}
	}
	if len(out) == 0 {
		for _, r := range j.reach.Roots {
			for _, name := range r.Asked {
				if !contains(out, name) {
					out = append(out, name)
				}
			}
		}
	}
	return out
}

func (j *journey) setResult() *report.Set {
	s := j.Set
	out := report.Set{Driver: s.Driver.Version, ArchOrigin: s.CapabilityOrigin}
	if out.Driver == "" {
		out.Driver = j.Facts.Driver.Version
	}
	if s.Toolkit != nil {
		out.Toolkit, out.Root = s.Toolkit.Label, s.Toolkit.Root
		if out.Toolkit == "" {
			out.Toolkit = s.Toolkit.Version.String()
		}
	}
	if s.Compiler != nil {
		out.Compiler = strings.TrimSpace(s.Compiler.Kind + " " + s.Compiler.Version)
	}
	if s.CUDNN != nil {
		out.CUDNN = s.CUDNN.Version
	}
	if !s.Capability.IsZero() {
		out.Arch = gpu.Arch{Capability: s.Capability}.String() + s.Suffix
	}
	for _, d := range j.Facts.Devices {
		out.Devices = append(out.Devices, report.Device{UUID: d.UUID, Name: d.Name, Capability: d.Capability.String()})
	}
	if s.Toolkit == nil && s.Compiler == nil && out.Driver == "" && len(out.Devices) == 0 {
		return nil
	}
	return &out
}

// reachResult is what one of our own verbs says of the features.
func (j *journey) reachResult(verb string) report.Result {
	state := map[bool]string{true: report.Failed, false: report.Passed}[j.reach.Stops]
	return report.Result{
		Verb: verb, Project: j.Shown(j.Project.Manifest), Features: j.featuresResult(), Findings: append([]finding.Finding{}, j.findings...),
		Checks: []report.Check{{ID: report.CheckReach, State: state, Message: j.stepWords(report.CheckReach, state)}},
	}
}

// reachEnd is how a verb about features ends.
func reachEnd(stops bool) error {
	if stops {
		return exit.Code(exit.Unreached)
	}
	return nil
}

func (j *journey) staleLines() []string {
	lines := stale.Lines(j.compared.Reasons)
	for _, d := range j.compared.Unknown {
		lines = append(lines, d.Package+": "+d.Why)
	}
	return append(lines, j.faultLines()...)
}

// cleanedPackages lists the packages that were cleaned.
func (j *journey) cleanedPackages() []string {
	out := make([]string, 0, len(j.cleaned))
	for name := range j.cleaned {
		out = append(out, name)
	}
	sort.Strings(out)
	return out
}

// result makes the one value of which everything else is rendered.
func (j *journey) result(end error) report.Result {
	r := j.app.result(j.Line.Verb, j.Began, end)
	r.Features, r.Stale, r.Cleaned = j.featuresResult(), j.staleLines(), j.cleanedPackages()
	if j.Project != nil {
		r.Project = j.Shown(j.Project.Manifest)
	}
	if j.walked {
		r.Set = j.setResult()
	}
	r.Programs = j.programResults()
	r.Checks = withFailure(j.roadChecks(r.Programs, end), j.Line.Verb, end)
	for i, c := range r.Checks {
		if lines := j.compileErrorLines(end); c.State == report.Failed && c.Name == "" && len(lines) > 0 {
			r.Checks[i].Message, r.Checks[i].Detail = lines[0], strings.Join(lines, "\n")
			break
		}
	}
	r.Findings = append(r.Findings, j.findings...)
	r.Findings = report.RedactFindings(append(r.Findings, j.endFindings(r, end)...), j.words)
	return r
}

// result is what every verb's result begins with.
func (a *app) result(verb string, began time.Time, end error) report.Result {
	return report.Result{
		Verb: verb, Row: a.Host.Env.Get(rowVariable), Gpubuild: version.Number(), At: began.UTC().Truncate(time.Second), Seconds: time.Since(began).Seconds(),
		Command: report.Redact(append([]string{"gpubuild"}, a.words...)), Code: exit.Of(end), Findings: []finding.Finding{}, Checks: []report.Check{},
	}
}

func (j *journey) programResults() []report.Program {
	var out []report.Program
	taken := map[int]bool{}
	for _, p := range j.programs {
		if p.Kind == "test" && j.Line.Verb != "test" && j.Line.Verb != "bench" {
			continue
		}
		made := report.Program{Name: p.Name, Path: j.Shown(p.Path), Kind: p.Kind, Package: p.Package, Marked: j.marked(p)}
		if j.auditedProgram != "" && j.Host.SamePath(j.auditedProgram, p.Path) {
			made.Audit = auditResult(j.audited)
		}
		if r, err := j.scan(p.Path); err == nil && j.reachedCheck(report.CheckBuild) {
			made.Code, made.Images = scanLine(r), imagesOf(r)
		}
		for i, got := range j.proofs {
			if !taken[i] && j.Host.SamePath(got.Program, p.Path) {
				taken[i] = true
				made.Proof = proofResult(got)
				break
			}
		}
		out = append(out, made)
	}
	for i, got := range j.proofs { // what cargo started and did not name, such as a doctest
		if !taken[i] {
			out = append(out, report.Program{Name: j.Host.Base(got.Program), Path: j.Shown(got.Program), Proof: proofResult(got)})
		}
	}
	return out
}

func imagesOf(r *fatbin.Report) []report.Image {
	var out []report.Image
	for _, im := range r.Images {
		one := report.Image{Kind: im.Kind, Arch: im.Arch.String(), Toolkit: im.Toolkit, Count: 1}
		if one.Kind == fatbin.PTXText {
			one.Kind = fatbin.PTX
		}
		known := false
		for i := range out {
			if out[i].Kind == one.Kind && out[i].Arch == one.Arch && out[i].Toolkit == one.Toolkit {
				out[i].Count++
				known = true
			}
		}
		if !known {
			out = append(out, one)
		}
	}
	return out
}

func proofResult(p proof) *report.Proof {
	v := p.Verdict
	out := &report.Proof{
		Verdict: v.Kind.String(), Why: v.Why, Lines: v.Lines, Device: v.Device, UUID: v.UUID, Driver: p.Evidence.Control.Loaded.Version,
		Launches: v.Launches, TotalNS: v.Total,
	}
	for _, k := range v.Kernels {
		if k.Matches {
			out.Kernels = append(out.Kernels, k.Name)
		}
	}
	return out
}
