package pipeline

import (
	"context"
	"io"

	"gpubuild/cmd/internal/cargorun"
	"gpubuild/cmd/internal/session"
	"gpubuild/cmd/internal/watch"
	"gpubuild/gpu"
	"gpubuild/toolchain/cargo"
)

// ran is what a run came to, and what the GPUs did meanwhile; nil: they were not watched.
type ran[T any] struct {
	result T
	watch  *gpu.Summary
}

// watched runs a program, and watches the GPUs meanwhile where that was requested. The error is the program's.
func watched[T any](ctx context.Context, c Command, s *session.Session, run func() (T, error)) (ran[T], error) {
	if !c.Options.Watch {
		result, err := run()
		return ran[T]{result, nil}, err
	}
	table := s.Config.Watch.Value
	failOn := c.Options.FailOn
	if failOn == nil && table != nil {
		failOn = table.FailOn
	}
	w := watch.Start(ctx, c.Machine, watch.Options{Thresholds: table.Thresholds(), Program: true, FailOn: failOn})
	result, err := run()
	summary, failed := w.Stop()
	watch.Print(c.Machine, summary, failed)
	return ran[T]{result, &summary}, err
}

// judgeWatch is the end of a watch, which replaces only a success; ended says that it did.
func judgeWatch(w *gpu.Summary, err error) (ended bool, end error) {
	if err == nil && w != nil {
		err = watch.Verdict(*w)
		return err != nil, err
	}
	return false, err
}

// watchCargo watches plain cargo, which builds before: meanwhile the GPUs are rightly idle.
func watchCargo(ctx context.Context, c Command, s *session.Session) (*gpu.Summary, error) {
	m := c.Machine
	build := cargo.Build(c.Tool, c.line(), cargorun.DefaultRun(s))
	build.Stdin, build.Stdout, build.Stderr = m.Stdin, io.Discard, m.Shell.Err
	if _, err := m.Runner.Run(ctx, build); err != nil {
		return nil, err
	}
	line := c.Line
	if line.Purpose() == cargo.Runs { // the build has been reported; tests would be quiet, too
		line = line.WithConfig("term.quiet=true")
	}
	ran, err := watched(ctx, c, s, func() (struct{}, error) { return struct{}{}, cargorun.Run(ctx, m, line, m.Host.Env) })
	return ran.watch, err
}
