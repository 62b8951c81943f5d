package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"time"

	"gpubuild/buildenv"
	"gpubuild/buildenv/cache"
	"gpubuild/buildenv/stale"
	"gpubuild/cmd/internal/config"
	"gpubuild/cmd/internal/receipt"
	"gpubuild/cmd/internal/report"
	"gpubuild/features"
	"gpubuild/gpu"
	"gpubuild/gpu/fatbin"
	"gpubuild/toolchain/cargo"
)

// rowVariable names the row of a matrix that this run is; `gpubuild ci run` sets it.
const rowVariable = "GPUBUILD_ROW"

// checkRun is the program's own run under cargo; what it showed of the GPU is the proofs' matter.
const checkRun = "run"

// gathered is what a walk notes for its result.
type gathered struct {
	walked   bool // the road was walked: there is GPU work, and the verb is judged
	checks   []report.Check
	proofs   []proof
	receipts []receipt.Receipt
	cause    *report.Finding // of a failed build, where it is known
	// compileErrors are rustc's first errors of a failed build, where its words passed through us.
	compileErrors []cargo.Diagnostic
	// notProven is why a proof that was asked for was not made.
	notProven string
	lines     *report.Lines // stdout among cargo's messages; nil where they were not asked for
}

// step takes one of the road's steps, and notes what came of it and how long it took. Two steps of one name in a row are one check.
func (j *journey) step(ctx context.Context, id string, f func(context.Context) error) error {
	j.walked = true
	began := time.Now()
	err := f(ctx)
	c := report.Check{ID: id, State: report.Passed, Seconds: time.Since(began).Seconds()}
	if err != nil {
		c.State, c.Message = report.Failed, err.Error()
		var code codeError
		if errors.As(err, &code) { // its words were said already
			c.Message = ""
			if id == checkRun && isVerdict(int(code)) {
				c.State = report.Passed
			}
		}
	}
	if n := len(j.checks); n > 0 && j.checks[n-1].ID == id {
		c.Seconds += j.checks[n-1].Seconds
		j.checks = j.checks[:n-1]
	}
	j.checks = append(j.checks, c)
	j.tellStep(id)
	return err
}

func isVerdict(code int) bool {
	return code == codeNotUsed || code == codeUnproved || code == codeOtherKernel
}

// ndjson answers where our own lines go among cargo's, or nil.
func (j *journey) ndjson() *report.Lines {
	if j.lines == nil && j.line.WantsJSON() {
		j.lines = report.NewLines(j.shell.Out)
	}
	return j.lines
}

// tellStep writes what a step found as a line among cargo's messages.
func (j *journey) tellStep(id string) {
	if j.ndjson() == nil {
		return
	}
	switch id {
	case report.CheckReach:
		if f := j.featuresResult(); f != nil {
			j.event("reach", f)
		}
		for _, f := range j.findings {
			j.event("finding", f)
		}
	case report.CheckToolchain:
		if s := j.setResult(); s != nil {
			j.event("toolchain", s)
		}
	case report.CheckStale:
		j.event("stale", struct {
			Stale   []string `json:"stale"`
			Cleaned []string `json:"cleaned"`
		}{append([]string{}, j.staleLines()...), append([]string{}, j.cleanedPackages()...)})
	case checkRun:
		j.lines.Shared() // cargo and the program had stdout for themselves
	}
}

func (j *journey) event(what string, fields any) {
	if err := j.ndjson().Event(what, fields); err != nil {
		j.shell.Warning("a gpubuild-%s line could not be written: %v", what, err)
	}
}

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
	for _, f := range j.line.Features {
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
	s := j.set
	out := report.Set{Driver: s.Driver.Version, ArchOrigin: s.CapabilityOrigin}
	if out.Driver == "" {
		out.Driver = j.facts.Driver.Version
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
	for _, d := range j.facts.Devices {
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
		Verb: verb, Project: j.shown(j.project.Manifest), Features: j.featuresResult(), Findings: append([]report.Finding{}, j.findings...),
		Checks: []report.Check{{ID: report.CheckReach, State: state, Message: j.stepWords(report.CheckReach, state)}},
	}
}

// reachEnd is how a verb about features ends.
func reachEnd(stops bool) error {
	if stops {
		return codeError(codeUnreached)
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
	r := j.app.result(j.line.Verb, j.began, end)
	r.Features, r.Stale, r.Cleaned = j.featuresResult(), j.staleLines(), j.cleanedPackages()
	if j.project != nil {
		r.Project = j.shown(j.project.Manifest)
	}
	if j.walked {
		r.Set = j.setResult()
	}
	r.Programs = j.programResults()
	r.Checks = withFailure(j.roadChecks(r.Programs, end), j.line.Verb, end)
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
		Verb: verb, Row: a.host.Env.Get(rowVariable), Gpubuild: version(), At: began.UTC().Truncate(time.Second), Seconds: time.Since(began).Seconds(),
		Command: report.Redact(append([]string{"gpubuild"}, a.words...)), Code: exitCode(end), Findings: []report.Finding{}, Checks: []report.Check{},
	}
}

// exitCode is the code that an error ends with; nothing is said.
func exitCode(err error) int { return finish(&report.Shell{Out: io.Discard, Err: io.Discard}, err) }

func (j *journey) programResults() []report.Program {
	var out []report.Program
	taken := map[int]bool{}
	for _, p := range j.programs {
		if p.Kind == "test" && j.line.Verb != "test" && j.line.Verb != "bench" {
			continue
		}
		made := report.Program{Name: p.Name, Path: j.shown(p.Path), Kind: p.Kind, Package: p.Package, Marked: j.marked(p)}
		if j.auditedProgram != "" && j.host.SamePath(j.auditedProgram, p.Path) {
			made.Audit = auditResult(j.audited)
		}
		if r, err := j.scan(p.Path); err == nil && j.reachedCheck(report.CheckBuild) {
			made.Code, made.Images = scanLine(r), imagesOf(r)
		}
		for i, got := range j.proofs {
			if !taken[i] && j.host.SamePath(got.Program, p.Path) {
				taken[i] = true
				made.Proof = proofResult(got)
				break
			}
		}
		out = append(out, made)
	}
	for i, got := range j.proofs { // what cargo started and did not name, such as a doctest
		if !taken[i] {
			out = append(out, report.Program{Name: j.host.Base(got.Program), Path: j.shown(got.Program), Proof: proofResult(got)})
		}
	}
	return out
}

func (j *journey) reachedCheck(id string) bool {
	for _, c := range j.checks {
		if c.ID == id {
			return true
		}
	}
	return false
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

// roadChecks are the walk's checks with words, those that were not reached, and one for each program's proof.
func (j *journey) roadChecks(programs []report.Program, end error) []report.Check {
	if !j.walked {
		return []report.Check{endCheck(report.CheckBuild, end)}
	}
	var out []report.Check
	stopped := ""
	for _, id := range []string{report.CheckReach, report.CheckToolchain, report.CheckStale, report.CheckBuild, report.CheckCode} {
		c := report.Check{ID: id, State: report.Skipped}
		for _, made := range j.checks {
			if made.ID == id {
				c = made
			}
		}
		switch {
		case c.State == report.Skipped:
			c.Message = "not reached"
			if stopped != "" {
				c.Message += ": " + stopped + " failed"
			}
		case c.State == report.Failed:
			stopped = id
		}
		if c.State != report.Skipped && c.Message == "" {
			c.Message = j.stepWords(id, c.State)
		}
		if id == report.CheckBuild && c.State == report.Failed && j.cause != nil {
			c.Detail = strings.TrimSpace(j.cause.Message + "\n" + j.cause.Fix)
		}
		out = append(out, c)
	}
	if j.line.Verb == "check" || j.line.Verb == "clippy" {
		return out
	}
	for _, c := range j.checks {
		if c.ID == checkRun {
			out = append(out, c)
		}
	}
	out = append(out, auditChecks(j.audited, j.host.Base(j.auditedProgram)+" ")...)
	code := exitCode(end)
	for _, p := range programs {
		c := report.Check{ID: report.CheckProof, Name: p.Name, State: report.Skipped, Message: "nothing was run"}
		required := j.required(p, code)
		switch {
		case p.Proof == nil && j.proofAsked():
			c.Message = orWord(j.notProven, "no GPU here")
		case p.Proof == nil:
		case p.Proof.Verdict == report.Proved:
			c.State, c.Message = report.Passed, "ran its kernel on "+p.Proof.Device
		default:
			c.Message = p.Proof.Verdict + ": " + p.Proof.Why
		}
		if p.Proof != nil {
			c.Detail = strings.Join(p.Proof.Lines, "\n")
		}
		if c.State == report.Skipped && required {
			c.State = report.Failed
		}
		out = append(out, c)
	}
	return out
}

// proofAsked says whether this run was to prove something.
func (j *journey) proofAsked() bool {
	switch j.line.Verb {
	case "run", "test", "bench":
		return !j.line.NoRun
	}
	return j.options.Prove || j.config.Prove.Value != nil
}

// stepWords says in a line what a step came to.
func (j *journey) stepWords(id, state string) string {
	switch id {
	case report.CheckReach:
		for _, f := range j.findings {
			if state == report.Failed && f.Severity == report.SeverityError {
				return f.Message
			}
		}
		if j.reach != nil {
			return strings.Join(reachLines(j.reach), "; ")
		}
	case report.CheckToolchain:
		if s := j.setResult(); s != nil {
			var words []string
			for _, w := range []string{prefixed("CUDA ", s.Toolkit), s.Compiler, prefixed("cuDNN ", s.CUDNN), s.Arch} {
				if w != "" {
					words = append(words, w)
				}
			}
			return strings.Join(words, ", ")
		}
	case report.CheckStale:
		if state == report.Failed {
			return strings.Join(j.staleLines(), "; ")
		}
		if list := j.cleanedPackages(); len(list) > 0 {
			return "cleaned " + strings.Join(list, ", ")
		}
		return "nothing is stale"
	case report.CheckBuild:
		return report.Count(len(j.programs), "program")
	case report.CheckCode:
		return "what was built is from the tools and for the architecture that were asked for"
	}
	return ""
}

func prefixed(prefix, s string) string {
	if s == "" {
		return ""
	}
	return prefix + s
}

// endCheck is a check of something that has no other words than its error.
func endCheck(id string, err error) report.Check {
	if err == nil {
		return report.Check{ID: id, State: report.Passed}
	}
	return report.Check{ID: id, State: report.Failed, Message: err.Error()}
}

// withFailure sees to it that what ended badly has a check that failed: a reader of JUnit looks at nothing else.
func withFailure(checks []report.Check, verb string, end error) []report.Check {
	if exitCode(end) == codeDone {
		return checks
	}
	for _, c := range checks {
		if c.State == report.Failed {
			return checks
		}
	}
	return append(checks, endCheck(orWord(verb, report.CheckBuild), end))
}

// endFindings are what a walk's end adds to the findings of the features.
func (j *journey) endFindings(r report.Result, end error) []report.Finding {
	var out []report.Finding
	code := exitCode(end)
	if code == codeStale {
		for _, l := range j.staleLines() {
			out = append(out, report.Finding{ID: "stale.found", Severity: report.SeverityError, Message: l, Fix: "leave --gpu-no-clean out"})
		}
	}
	sources := map[string]string{}
	for _, p := range j.programs {
		sources[j.shown(p.Path)] = j.shown(p.Source)
	}
	for _, p := range r.Programs {
		if f, ok := proofFinding(p, j.required(p, code)); ok {
			f.Path = sources[p.Path]
			out = append(out, f)
		}
	}
	if isExit(end) {
		for _, d := range j.compileErrors {
			out = append(out, report.Finding{ID: "build.compile-error", Severity: report.SeverityError, Message: d.Message, Path: j.shown(j.rustcPath(d.Path)), Line: d.Line})
		}
	}
	for _, m := range j.missed {
		out = append(out, report.Finding{ID: "proof.not-run", Severity: report.SeverityError, Message: m})
	}
	if f, ok := j.failure(end); ok {
		out = append(out, f)
	}
	return out
}

// proofFinding words a proof that did not succeed.
func proofFinding(p report.Program, counts bool) (report.Finding, bool) {
	if p.Proof == nil || p.Proof.Verdict == report.Proved {
		return report.Finding{}, false
	}
	f := report.Finding{ID: "proof." + strings.ReplaceAll(p.Proof.Verdict, " ", "-"), Severity: report.SeverityWarning, Message: p.Name + ": " + p.Proof.Why, Evidence: strings.Join(p.Proof.Lines, "\n")}
	if counts {
		f.Severity = report.SeverityError
	}
	return f, true
}

func isExit(err error) bool {
	_, ok := err.(*buildenv.ExitError)
	return ok
}

// compileErrorLines are rustc's first errors of a build that failed, a line each.
func (j *journey) compileErrorLines(end error) []string {
	if !isExit(end) {
		return nil
	}
	var out []string
	for _, d := range j.compileErrors {
		out = append(out, fmt.Sprintf("%s:%d: %s", j.shown(j.rustcPath(d.Path)), d.Line, d.Message))
	}
	return out
}

// rustcPath makes a path of rustc's absolute: cargo starts it in the workspace's root.
func (j *journey) rustcPath(path string) string {
	if j.host.IsAbs(path) {
		return path
	}
	return j.host.Join(j.project.Root, path)
}

// failure words an error that nothing else has put among the findings.
func (j *journey) failure(end error) (report.Finding, bool) {
	f, ok := failure(end, j.line.Verb)
	if ok && j.cause != nil {
		j.cause.Severity = report.SeverityError
		return *j.cause, true
	}
	f.Path = j.shownIf(f.Path)
	return f, ok
}

func (a *app) shownIf(path string) string {
	if path == "" {
		return ""
	}
	return a.shown(path)
}

func failure(end error, verb string) (report.Finding, bool) {
	var code codeError
	if end == nil || errors.As(end, &code) {
		return report.Finding{}, false
	}
	f := report.Finding{ID: "gpubuild.failed", Severity: report.SeverityError, Message: end.Error()}
	var hint interface{ Hint() string }
	if errors.As(end, &hint) {
		f.Fix = hint.Hint()
	}
	var conf *config.Error
	var toml *features.ManifestError
	switch {
	case errors.As(end, &conf):
		f.ID, f.Path, f.Line, f.Message = "config.wrong", conf.Path, conf.Line, conf.Problem
		return f, true
	case errors.As(end, &toml):
		f.ID, f.Path, f.Line, f.Message = "config.wrong", toml.Path, toml.Line, toml.Message
		return f, true
	}
	if exit, ok := end.(*buildenv.ExitError); ok {
		f.ID = "build.failed"
		if verb == "run" || verb == "test" || verb == "bench" {
			f.ID = "run.failed"
		}
		f.Message = fmt.Sprintf("%s ended with %d", filepath.Base(exit.Cmd.Path), exit.Result.Code)
		return f, true
	}
	switch exitCode(end) {
	case codeMissing:
		f.ID = "toolchain.missing"
	case codeMisfit:
		f.ID = "toolchain.misfit"
	case codeConfig:
		f.ID = "config.wrong"
	case codeUsage:
		f.ID = "command.wrong"
	}
	return f, true
}

// wanted says whether anything is to be rendered of the result.
func (o Options) wanted() bool {
	return o.SARIF != "" || o.JUnit != "" || o.Receipt != "" || o.JSON != nil
}

// checkResults refuses what cannot be written together.
func (o Options) checkResults(l cargo.Line) error {
	if o.NoClean && o.ForceClean {
		return &usageError{"--gpu-no-clean and --gpu-force-clean contradict each other", "leave one of them out"}
	}
	if o.Audit && l.Known() && l.Verb != "build" {
		return &usageError{"--gpu-audit belongs to build, and this is " + l.Verb, "gpubuild audit BIN -- ARGS audits any program"}
	}
	if err := o.checkExpected("--gpu-"); err != nil {
		return err
	}
	if o.JSON != nil && *o.JSON == "" && l.WantsJSON() {
		return &usageError{"stdout has cargo's messages, and --gpu-json would write into them", "give it a file: --gpu-json=FILE"}
	}
	return nil
}

// settle renders what a cargo verb came to, and answers how it ends: a file that could not be written is told, and counts only where all else was well.
func (j *journey) settle(end error) error {
	if isInterrupted(end) {
		return end
	}
	on := j.walked && j.onGitHub()
	if !on && !j.options.wanted() && (!j.walked || j.ndjson() == nil) {
		return end
	}
	r := j.result(end)
	if j.walked && j.ndjson() != nil {
		for _, p := range r.Programs {
			j.event("program", p)
		}
		for _, f := range r.Findings[len(j.findings):] {
			j.event("finding", f)
		}
		j.event("finished", struct {
			OK     bool           `json:"ok"`
			Code   int            `json:"exit_code"`
			Row    string         `json:"row,omitempty"`
			Checks []report.Check `json:"checks"`
		}{r.OK(), r.Code, r.Row, r.Checks})
	}
	o := j.options
	bad := j.render(o, r, nil, on)
	if o.Receipt != "" {
		bad = append(bad, j.writeReceipts(r))
	}
	return j.endWith(end, bad)
}

// endWith tells what could not be written; it is the end only where all else was well.
func (a *app) endWith(end error, bad []error) error {
	for _, err := range bad {
		switch {
		case err == nil:
		case end == nil:
			end = err
		default:
			say(a.shell, err)
		}
	}
	return end
}

// render writes a result in every form that was asked for, and answers what could not be written.
func (a *app) render(o Options, r report.Result, fields any, github bool) []error {
	var bad []error
	if o.JSON != nil {
		data, err := r.Answer(fields)
		if err == nil {
			err = a.writeAnswer(*o.JSON, data)
		}
		bad = append(bad, err)
	}
	if o.SARIF != "" || github {
		r.Findings = append([]report.Finding{}, r.Findings...)
		root := a.sourceRoot(r.Project)
		otherwise := a.rooted(root, orWord(r.Project, "gpubuild.toml"))
		for i := range r.Findings {
			r.Findings[i].Path = a.rooted(root, r.Findings[i].Path)
		}
		if o.SARIF != "" {
			data, err := r.SARIF(otherwise)
			if err == nil {
				err = a.writeFile(o.SARIF, data)
			}
			bad = append(bad, err)
		}
		if github {
			_, err := io.WriteString(a.shell.Err, report.Annotations(r.Findings))
			bad = append(bad, err, a.appendSummary(r))
		}
	}
	if o.JUnit != "" {
		data, err := r.JUnit()
		if err == nil {
			err = a.writeFile(o.JUnit, data)
		}
		bad = append(bad, err)
	}
	return bad
}

// end renders what one of our own verbs came to.
func (a *app) end(o Options, end error, r report.Result, fields any) error {
	a.concluded = true
	made := a.result(r.Verb, a.began, end)
	made.Project, made.Features, made.Set, made.Programs, made.Stale = r.Project, r.Features, r.Set, r.Programs, r.Stale
	made.Findings, made.Checks = append(made.Findings, r.Findings...), append(made.Checks, r.Checks...)
	if f, ok := failure(end, r.Verb); ok {
		f.Path = a.shownIf(f.Path)
		made.Findings = append(made.Findings, f)
	}
	made.Findings = report.RedactFindings(made.Findings, a.words)
	if len(made.Checks) == 0 {
		made.Checks = append(made.Checks, endCheck(r.Verb, end))
	}
	made.Checks = withFailure(made.Checks, r.Verb, end)
	bad := a.render(o, made, fields, a.onGitHub())
	if len(a.sealed) > 0 {
		bad = append(bad, a.writeReceipt(o, a.sealed, made))
	}
	return a.endWith(end, bad)
}

// endEarly renders an error of one of our own verbs that came before its answer.
func (a *app) endEarly(o Options, verb string, end error) error {
	if end == nil || a.concluded || isInterrupted(end) || !contains(onlyOn["sarif"], verb) {
		return end
	}
	o.JSON = nil // there is no answer
	return a.end(o, end, report.Result{Verb: verb}, nil)
}

// writeAnswer writes machine-readable output to stdout, or beside and renamed to a file.
func (a *app) writeAnswer(file string, data []byte) error {
	if file == "" {
		_, err := a.shell.Out.Write(data)
		return err
	}
	return a.writeFile(file, data)
}

func (a *app) writeFile(file string, data []byte) error {
	path := a.host.Abs(file)
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = cache.WriteFile(path, data, 0o644)
	} else {
		err = &cache.WriteError{Path: path, Err: err}
	}
	if err != nil {
		return &outputError{err}
	}
	return nil
}

// outputError says that a file that the command line names cannot be written.
type outputError struct{ err error }

func (e *outputError) Error() string { return e.err.Error() }
func (e *outputError) Unwrap() error { return e.err }

// onGitHub says whether a step of GitHub Actions reads what we write.
func (a *app) onGitHub() bool { return a.host.Env.Get("GITHUB_ACTIONS") == "true" }

// appendSummary appends to the step's summary what there is room for.
func (a *app) appendSummary(r report.Result) error {
	file := a.host.Env.Get("GITHUB_STEP_SUMMARY")
	if file == "" {
		return nil
	}
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("the step summary: %w", err)
	}
	fi, err := f.Stat()
	if err == nil {
		_, err = io.WriteString(f, r.Summary(report.SummaryRoom(fi.Size())))
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("the step summary: %w", err)
	}
	return nil
}

// sourceRoot is what paths in SARIF and annotations are relative to: the checkout of the workflow, else the directory with .git above the project.
func (a *app) sourceRoot(project string) string {
	start := a.host.Cwd
	if project != "" {
		start = a.host.Dir(a.host.Abs(project))
	}
	if root := a.host.Env.Get("GITHUB_WORKSPACE"); root != "" && (a.host.Below(start, root) || a.host.SamePath(start, root)) {
		return root
	}
	for dir := start; ; dir = a.host.Dir(dir) {
		if _, err := a.host.Files.Stat(a.host.Join(dir, ".git")); err == nil {
			return dir
		}
		if a.host.Dir(dir) == dir {
			return a.host.Cwd
		}
	}
}

// rooted is a path below the source root with slashes, or the absolute path of another.
func (a *app) rooted(root, path string) string {
	if path == "" {
		return ""
	}
	abs, root := a.host.Clean(a.host.Abs(path)), a.host.Clean(root)
	if !a.host.Below(abs, root) || a.host.SamePath(abs, root) {
		return abs
	}
	return strings.ReplaceAll(strings.TrimLeft(abs[len(root):], `/\`), `\`, "/")
}

// noteProof keeps a verdict that was told.
func (j *journey) noteProof(p proof) {
	j.proofs = append(j.proofs, p)
	if p.Receipt != nil {
		j.receipts = append(j.receipts, *p.Receipt)
	}
	if j.ndjson() != nil {
		j.lines.Shared() // the program had stdout for itself
	}
}
