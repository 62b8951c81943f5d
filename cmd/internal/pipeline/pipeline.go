// Package pipeline decides which stages a cargo command line runs, and runs them: from the
// requested feature to the verdict about the GPU. It decides nothing about features, tools,
// artifacts or proofs itself; each stage is a package of its own, takes values and returns a value.
package pipeline

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/finding"
	"gpubuild/buildenv/memo"
	"gpubuild/cmd/internal/cargorun"
	"gpubuild/cmd/internal/elsewhere"
	"gpubuild/cmd/internal/fresh"
	"gpubuild/cmd/internal/proof"
	"gpubuild/cmd/internal/reach"
	"gpubuild/cmd/internal/report"
	"gpubuild/cmd/internal/session"
	"gpubuild/cmd/internal/tools"
	"gpubuild/features/manifest"
	"gpubuild/gpu/probe"
	"gpubuild/toolchain/cargo"
	"gpubuild/toolchain/nvcc"
)

// Command is a command line of one of cargo's subcommands, with our own flags taken out of it.
type Command struct {
	Machine *session.Machine
	Tool    cargo.Tool // the cargo that the user called
	Line    cargo.Line
	Options Options
	Args    []string // the command line without the program's name
	Typed   []string // the arguments that the user typed, for hints that repeat them

	watching *recording // nil: what is looked at is not recorded
}

// Options are our flags on cargo's subcommands.
type Options struct {
	Tools          tools.Options
	Fresh          fresh.Options
	Proof          proof.Options
	Audit          bool
	AuditArgs      []string
	Strict         bool // a warning of the feature check stops the build, too
	AllowUnreached bool // build although a feature does not enable its GPU crates
	Files          report.Files
	Cache          string   // of kernels: on, off, read; empty: not said
	Watch          bool     // watch the GPUs while the program runs
	FailOn         []string // kinds of alerts that fail it; nil: those of the configuration
}

// nextest is the `cargo nextest` line that was typed; the pipeline works on the `cargo test` that builds the same.
func (c Command) nextest() *cargo.Line {
	if _, ok := c.Line.Nextest(); ok {
		return &c.Line
	}
	return nil
}

// line is what the stages work on.
func (c Command) line() cargo.Line {
	if test, ok := c.Line.Nextest(); ok {
		return test
	}
	return c.Line
}

// Dispatch decides what a command line needs, runs it, and returns what it came to, after a failure, too.
func Dispatch(ctx context.Context, c Command) (none report.Report, err error) {
	if err := c.Options.Proof.Files.Check(c.Machine.Host); err != nil {
		return none, err
	}
	switch o, along := c.Options, c.Machine.Host.Env.Get(cargorun.ReadAlong); {
	case along != "" && along != "never":
		return none, exit.Usagef("set it to never, or unset it", "%s=%s: it takes only never", cargorun.ReadAlong, along)
	case o.Files.Wanted() && c.line().Purpose() == cargo.Other:
		return none, exit.Usagef("leave the flag out", "gpubuild makes no result of `%s`", strings.Join(c.Line.Words(), " "))
	case o.Watch && !c.line().Starts():
		return none, exit.Usagef("leave them out, or use `gpubuild run`",
			"--gpu-watch and --gpu-fail-on need a program that runs: run, test or bench")
	case o.Proof.Coverage != nil && !proof.RunsTests(c.line()):
		return none, exit.Usagef("use test or nextest run, without --no-run", "--gpu-coverage needs tests that run")
	case (o.Proof.Required || o.Proof.Wanted) && !c.line().Starts() && c.line().Purpose() != cargo.Builds:
		flag := "--gpu-require-proof"
		if !o.Proof.Required {
			flag = "--gpu-prove"
		}
		return none, exit.Usagef("use build, run, test, bench or nextest run, without --no-run",
			"%s needs a program to run, and `%s` runs none", flag, strings.Join(c.Line.Words(), " "))
	case len(o.Proof.Args) > 0 && c.line().Starts():
		return none, exit.Usagef(buildenv.Words(c.Machine.Host.OS, append([]string{"gpubuild"}, c.argsBehind(c.Typed)...)...),
			"--gpu-prove takes the program's arguments on build; write them behind `--`")
	case o.Proof.On.Name != "" && (!c.line().Starts() || o.Watch):
		words := slices.DeleteFunc(c.argsBehind(c.Typed), func(w string) bool { return w == "--no-run" || w == "--gpu-watch" })
		if at := slices.Index(words, c.Line.VerbWord); at < 0 {
			words = slices.Insert(words, 0, "run")
		} else if !c.line().Purpose().Starts() {
			words[at] = "run"
		}
		return none, exit.Usagef(buildenv.Words(c.Machine.Host.OS, append([]string{"gpubuild"}, words...)...),
			"--gpu-on is for run, test, bench and nextest run, without --gpu-watch")
	}
	trace := finding.NewTrace(time.Now)
	if c.mayBeNoop() {
		if key, err := c.noopKey(); err == nil {
			if done, err := c.tryNoop(ctx, key); done {
				return none, err
			}
			c = c.recorded(key)
		}
	}
	p, err := c.plan(ctx, trace)
	result := p.result()
	if err == nil {
		result, err = p.carryOut(ctx, trace)
	}
	if err == nil && c.Options.Proof.Demanded() && len(result.Proof.Proofs) == 0 { // however it came that nothing was run
		c.Machine.Shell.Alert("Not proven:", "`%s` ran no program that could be proven", strings.Join(c.Line.Words(), " "))
		err = exit.Code(exit.Unproved)
	}
	c.saveNoop(result, err)
	if !c.Options.Files.Wanted() && c.Machine.Host.Env.Get("GITHUB_ACTIONS") != "true" { // nobody reads it
		return none, err
	}
	return result.outcome(c, trace), err
}

// argsBehind are words with the arguments that --gpu-prove=ARGS has where a verb that starts programs takes them.
func (c Command) argsBehind(words []string) (out []string) {
	for i, w := range words {
		if w == "--" {
			return append(append(out, words[i:]...), c.Options.Proof.Args...)
		}
		if strings.HasPrefix(w, "--gpu-prove=") {
			w = "--gpu-prove"
		}
		out = append(out, w)
	}
	if len(c.Options.Proof.Args) > 0 {
		out = append(append(out, "--"), c.Options.Proof.Args...)
	}
	return out
}

// asksForVulkan reports whether a command line without CUDA asks for a proof of Vulkan: by the flag, or where a program is run, by a
// feature.
func (c Command) asksForVulkan() bool {
	line := c.line()
	if c.Options.Proof.BackendGiven || !line.Purpose().Starts() {
		return c.Options.Proof.Backend == probe.Vulkan
	}
	asked := manifest.ParseRequest(manifest.Request{Features: line.Features})
	return slices.ContainsFunc(slices.Concat(append(slices.Collect(maps.Values(asked.Qualified)), asked.Plain)...), func(f string) bool {
		return slices.Contains([]string{"gpu", "wgpu", "vulkan"}, f)
	})
}

// cargo runs plain cargo, on Unix in place of gpubuild if nothing is left to do after it.
func (c Command) cargo(ctx context.Context, env buildenv.Env) error {
	o := c.Options
	if o.Proof.Wanted || o.Proof.Required || o.Audit || o.Files.Wanted() ||
		c.Machine.Host.Env.Get("GITHUB_ACTIONS") != "" {
		return cargorun.Run(ctx, c.Machine, c.Line, env)
	}
	return cargorun.Replace(ctx, c.Machine, c.Line, env)
}

// demandsProof reports whether the user, or in CI the configuration, asks for an answer that a build without GPU work cannot give.
func (c Command) demandsProof(s *session.Session) bool {
	o := c.Options
	return c.line().Purpose().Judged() && (o.Proof.Demanded() || o.Audit) ||
		c.line().Starts() && proof.Request{Session: s, Options: o.Proof}.Requires()
}

// runWithoutGPU is plain cargo, and says after it what was left off: above an error of cargo's it would be taken for the reason. A proof
// that was requested and cannot be made must not look like a success.
func (p Plan) runWithoutGPU(ctx context.Context) (r Result, err error) {
	c, m, s := p.Command, p.Machine, p.Session
	r.Session = s
	demanded, asked := c.demandsProof(s), c.line().Starts() &&
		(c.Options.Proof.AsksForMatch() || c.Options.Proof.Coverage != nil || c.Options.Proof.UntilProved)
	if c.Options.Proof.Timeout > 0 && c.line().Starts() {
		m.Shell.Warning("--gpu-timeout has no effect: %s", p.Why)
	}
	request := proof.Request{Session: s, Options: c.Options.Proof}
	if !p.asked || p.Features.Reach != nil { // else cargo refuses the build
		c.warnNoFeature(s)
	}
	switch {
	case c.Options.Watch:
		r.Watch, err = watchCargo(ctx, c, s)
	case demanded, asked, len(p.LeftOff) > 0:
		if err = cargorun.Run(ctx, m, c.Line, m.Host.Env); err == nil {
			c.noteLeftOff(p.LeftOff)
		}
	default:
		c.savePlainNoop()
		err = c.cargo(ctx, m.Host.Env)
	}
	if err == nil && demanded && proof.Marks(s) != nil && !c.Options.Proof.Demanded() {
		if demanded, err = c.selectsMarked(ctx, request); err != nil {
			return r, err
		}
	}
	if (demanded || asked) && (err == nil || request.ExpectedEnd(err)) {
		m.Shell.Alert("Not proven:", "no GPU work: %s", p.Why)
	}
	if demanded && (err == nil || request.ExpectedEnd(err)) {
		if o := c.Options; !o.Proof.Demanded() && !o.Audit {
			m.Shell.Note("the configuration wants a proof, and this is CI%s", toEnable(s))
		}
		return r, exit.Code(exit.Unproved)
	}
	r.EndedByWatch, err = judgeWatch(r.Watch, err)
	return r, err
}

// warnNoFeature says that the configuration wants a proof of a build without GPU work: its feature may have been forgotten.
func (c Command) warnNoFeature(s *session.Session) {
	request := proof.Request{Session: s.With(c.line()), Options: c.Options.Proof}
	if wants := request.WantedBy(); wants != "" {
		c.Machine.Shell.Warning("`%s` wants a proof, but this build enables no GPU feature", wants)
	}
}

// selectsMarked asks cargo for the programs of a run without GPU work, and reports whether a marked one is among them.
func (c Command) selectsMarked(ctx context.Context, r proof.Request) (required bool, err error) {
	if r.Targets, err = markedTargets(ctx, c, r.Session); err != nil {
		return false, err
	}
	m := c.Machine
	built, err := cargorun.Build(ctx, r.Session, c.Tool.With(m.Host.Env), cargorun.Output{Other: m.Shell.Out})
	r.Programs = built.Programs
	return r.Requires(), err
}

const leftOffNoted = "left-off-1"

// leftOff lists the GPU features of the built packages that are off: once, and again when a manifest has changed.
func (c Command) leftOff(s *session.Session) []manifest.Question {
	return slices.DeleteFunc(off(s), func(q manifest.Question) bool {
		_, noted := c.Machine.Memo().Get(leftOffNoted, memo.Key(q.Package.Manifest, q.Feature))
		return noted || !s.Line.Purpose().Judged()
	})
}

// off lists the GPU features of the built packages that are off.
func off(s *session.Session) []manifest.Question {
	r := s.Request()
	selected, _ := s.Project.Selection(r)
	asked := manifest.ParseRequest(r)
	return slices.DeleteFunc(s.Project.Questions(r.GPUFeatures), func(q manifest.Question) bool {
		on, _ := q.Package.Closure(asked.Of(q.Package))
		return on[q.Feature] || !slices.Contains(selected, q.Package)
	})
}

// toEnable names the flags of the GPU features that a build leaves off.
func toEnable(s *session.Session) string {
	var flags []string
	for _, q := range off(s) {
		if flag := "--features " + q.Feature; !slices.Contains(flags, flag) {
			flags = append(flags, flag)
		}
	}
	if len(flags) == 0 {
		return ""
	}
	return ": add " + strings.Join(flags, " or ")
}

func (c Command) noteLeftOff(left []manifest.Question) {
	for _, q := range left {
		c.Machine.Shell.Note("`%s` has a `%s` feature that this build leaves off", q.Package.Name, q.Feature)
		store := c.Machine.Memo()
		if err := store.Put(leftOffNoted, memo.Key(q.Package.Manifest, q.Feature), store.Watch(q.Package.Manifest), nil); err != nil {
			c.Machine.Shell.Detail("the note is not recorded, and will be repeated: %v", err)
		}
	}
}

// graph asks cargo what it will build.
func (c Command) graph(ctx context.Context, s *session.Session) (graph session.Graph, err error) {
	apart := c.Line.Purpose() == cargo.Installs || !c.line().Purpose().Compiles() // writes no Cargo.lock, or does so itself
	graph, err = s.Graph(ctx, c.Tool, session.Question{Places: true, Apart: apart})
	if err != nil && !apart {
		err = reach.WithMissingFeature(ctx, s, err)
	}
	return graph, err
}

// stage runs one stage, and notes that it was made, how long it took and how it ended.
func stage[T any](trace *finding.Trace, id string, do func() (T, error)) (out T, err error) {
	err = trace.Check(id, func() (err error) {
		out, err = do()
		return err
	})
	return out, err
}

// build goes from the tools to the verdict. What the stages found so far is returned after a failure, too.
func (p Plan) build(ctx context.Context, trace *finding.Trace) (r Result, err error) {
	c, m, s, line := p.Command, p.Machine, p.Session, p.Session.Line
	r = p.result()
	picked, err := stage(trace, report.CheckToolchain, func() (toolset, error) { return c.choose(ctx, s, r.Features) })
	if r.Tools = picked.Tools; err != nil {
		return r, err
	}
	s = s.With(r.Tools.Line)
	if picked.standIn {
		b := newBuilder(c, s, r)
		r.Built, err = stage(trace, report.CheckBuild, func() (cargorun.Built, error) { return b.build(ctx) })
		r.Cause = b.cause(ctx, r.Built)
		return r, err
	}
	target := freshBuild(s, r.Features, r.Tools, c.Options.Fresh)
	if err := target.Branches(); err != nil {
		return r, err
	}
	unlock, err := fresh.Lock(ctx, m, r.Features.Graph.Places)
	if err != nil {
		return r, err
	}
	defer unlock()
	cache, err := startKernels(m, c.Options.Cache, r.Tools)
	if err != nil {
		return r, err
	}
	r.Stale, err = stage(trace, report.CheckStale, func() (*fresh.State, error) { return fresh.Inspect(target).Clean(ctx) })
	if err != nil {
		cache.end(m)
		return r, err
	}
	if cache.log != "" {
		cache.env = cache.env.Set(nvcc.MacrosVariable, r.Stale.Macros())
	}
	r.kernels = cache
	typed := s
	if c.Line.Purpose() == cargo.Installs { // judged as the build that it does
		typed = s.With(c.Line)
	}
	builder := newBuilder(c, typed, r)
	builder.tool = builder.tool.With(cache.env)
	made, err := buildAndVerify(ctx, builder, r.Stale, trace)
	if r.Built, r.Stale, r.Cause = made.built, made.state, builder.cause(ctx, made.built); err == nil {
		r.Tools.KeepArchUnset(m, r.Features.Graph.Places.BuildDirectory)
	}
	cache.end(m)
	found := r.Stale.Findings()
	if err == nil {
		found = append(slices.Clip(found), unused(c, r)...)
	}
	r.Findings = append(r.Findings, found...)
	if err != nil {
		return r, err
	}
	cargorun.PrintExecutables(m, line, r.Built.Programs)
	if line.Purpose() == cargo.Checks {
		return r, nil
	}
	if err := proof.ScanBuilt(m, line, r.Built.Programs, r.Tools.Asked); err != nil {
		return r, err
	}
	shown, err := checkBuilt(c, s, r)
	if r.Findings = append(r.Findings, shown...); err != nil {
		c.warnInstalled(r.Built)
		return r, err
	}
	unlock() // before the program runs
	request := p.proofRequest(s, r)
	switch {
	case !line.Purpose().Starts():
		return proveBuilt(ctx, c, r, request)
	case line.Has("--no-run"):
		return r, nil
	}
	return runBuilt(ctx, c, s, r, request, trace)
}

// warnInstalled: cargo compiles and installs in one go, and only what it compiled shows that the program does not use the GPU.
func (c Command) warnInstalled(b cargorun.Built) {
	if c.Line.Purpose() != cargo.Installs || c.Line.Has("--dry-run") {
		return
	}
	what := "the program"
	if len(b.Installed) > 0 {
		what = strings.Join(b.Installed, ", ")
	}
	c.Machine.Shell.Warning("%s was installed before this was known", what)
}

// runBuilt runs what was built as the subcommand does, here or at another place.
func runBuilt(ctx context.Context, c Command, s *session.Session, r Result, request proof.Request, trace *finding.Trace) (Result, error) {
	on, leave, err := elsewhere.Open(ctx, c.Machine, request.Given.Place)
	if err != nil {
		return r, err
	}
	defer leave()
	request.Given.Place = on
	ran, err := stage(trace, report.CheckRun, func() (ran[proof.Result], error) {
		return watched(ctx, c, s, func() (proof.Result, error) { return proof.Run(ctx, request) })
	})
	r.Proof, r.Watch = ran.result, ran.watch
	r.Findings = append(r.Findings, explainProgram(ctx, c, r)...)
	r.EndedByWatch, err = judgeWatch(r.Watch, err)
	return r, err
}

// proveBuilt is the end of a build: the audit and the proof, as far as they are asked for.
func proveBuilt(ctx context.Context, c Command, r Result, request proof.Request) (Result, error) {
	audited := error(nil)
	if c.Options.Audit {
		r.Audit, audited = proof.AuditBuilt(ctx, request, c.Options.AuditArgs)
		r.Findings = append(r.Findings, r.Audit.Findings...)
		var verdict exit.Code
		if audited != nil && !errors.As(audited, &verdict) {
			r.EndedByAudit = true
			return r, audited
		}
	}
	var err error
	r.Proof, err = proof.Built(ctx, request)
	r.Findings = append(r.Findings, explainProgram(ctx, c, r)...)
	if err != nil {
		return r, err
	}
	r.EndedByAudit = audited != nil
	return r, audited
}
