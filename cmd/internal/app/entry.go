package app

import (
	"context"

	"gpubuild/cmd/internal/cargorun"
	"gpubuild/cmd/internal/ci"
	"gpubuild/cmd/internal/console"
	"gpubuild/cmd/internal/report"
	"gpubuild/cmd/internal/session"
	"gpubuild/toolchain/cargo"
)

// App is one run of gpubuild.
type App = app

// New is a run on a machine; words are the command line without the program's name.
func New(m *session.Machine, words []string) *App { return &app{Machine: m, words: words} }

// CargoVerb does what a verb of cargo's asks for: it judges, builds and proves. typed are the words as the user wrote them.
func (a *app) CargoVerb(ctx context.Context, o Options, l cargo.Line, typed []string) error {
	a.typed = typed
	a.speakLike(l)
	return a.cargoVerb(ctx, o, l)
}

// Plain calls cargo as the user wrote it.
func (a *app) Plain(ctx context.Context, l cargo.Line) error {
	return cargorun.Plain(ctx, a.Machine, l, a.Host.Env)
}

// CIStep is the process that a wrapper such as srun starts for a step of a row.
func (a *app) CIStep(ctx context.Context, words []string) error {
	return ci.Inside(ctx, a.Machine, ciParser(), words, func(err error) int { return console.Finish(a.Shell, err) })
}

// Answer writes a verb's machine-readable answer where it was asked for.
func (a *app) Answer(o Options, verb string, fields any) error {
	return a.answer(o, verb, true, nil, fields)
}

// End renders what a verb came to.
func (a *app) End(o Options, end error, r report.Result, fields any) error {
	return a.end(o, end, r, fields)
}

// EndEarly renders an error of a verb that has results and ended before it had one.
func (a *app) EndEarly(o Options, verb string, err error) error { return a.endEarly(o, verb, err) }

// Features says whether features reach.
func Features(ctx context.Context, a *App, o Options, l cargo.Line) error {
	return runFeatures(a, ctx, o, l)
}

// EnvVerb prints the environment of the build.
func EnvVerb(ctx context.Context, a *App, o EnvOptions, l cargo.Line) error {
	return runEnv(a, ctx, o, l)
}

// Stale says what is stale.
func Stale(ctx context.Context, a *App, o Options, l cargo.Line) error { return runStale(a, ctx, o, l) }

// Clean removes what was built of the GPU packages.
func Clean(ctx context.Context, a *App, o Options, l cargo.Line) error { return runClean(a, ctx, o, l) }

// Prove proves what a program does.
func Prove(ctx context.Context, a *App, o Options, l cargo.Line) error { return runProve(a, ctx, o, l) }

// ReceiptVerb checks a receipt.
func ReceiptVerb(ctx context.Context, a *App, o Options, l cargo.Line) error {
	return runReceipt(a, ctx, o, l)
}

// Report joins results into a page.
func Report(ctx context.Context, a *App, o Options, l cargo.Line) error {
	return runReport(a, ctx, o, l)
}

// Audit runs a program on drivers that fail.
func Audit(ctx context.Context, a *App, o Options, l cargo.Line) error { return runAudit(a, ctx, o, l) }

// CI is the matrix of CI.
func CI(ctx context.Context, a *App, o Options, l cargo.Line) error { return runCI(a, ctx, o, l) }

// Explain says what a log means.
func Explain(ctx context.Context, a *App, o Options, l cargo.Line) error {
	return runExplain(a, ctx, o, l)
}

// Init writes a gpubuild.toml.
func Init(ctx context.Context, a *App, o InitOptions, l cargo.Line) error {
	return runInit(a, ctx, o, l)
}
