package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"syscall"
	"time"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/finding"
	"gpubuild/cmd/internal/help"
	"gpubuild/cmd/internal/report"
	"gpubuild/cmd/internal/session"
	"gpubuild/cmd/internal/watch"
	"gpubuild/gpu"
	"gpubuild/toolchain/cargo"
)

// watchOptions are the flags of watch.
type watchOptions struct {
	FailOn []string
	For    time.Duration // 0: until it is interrupted, or the program ends
	JSON   *string
}

func watchVerb() verb {
	var o watchOptions
	return verb{
		Verb: help.Verb{
			Name: "watch", Args: "[-- COMMAND]", Usage: "watch the GPUs, alone or while a program runs",
			Examples: []string{"gpubuild watch", "gpubuild watch --fail-on idle,throttle -- target/release/train"},
			Text: "Reads twice a second: utilisation, memory, temperature, clocks, power, throttling, errors. Says when a GPU is hot, " +
				"slowed down, full, failing, or idle while the program runs; the thresholds are in [watch] of gpubuild.toml.\n" +
				"Exits with the program's code if it failed. Otherwise --fail-on exits with 23 after one of these alerts, and with 21 if " +
				"the GPU could not be asked about one of them all the time. The program starts when the driver has answered, after at most 10 seconds.\n" +
				"--json writes a line for each sample, then the summary; --json=FILE writes the summary only.",
		},
		flags: append([]*flag{
			newFlag("fail-on", cargo.Value, "ALERTS", "exit with 23 after one of these: "+strings.Join(gpu.AlertKinds, ", "),
				func(v string) error { return watch.AddFailOn(&o.FailOn, v) }),
			newFlag("for", cargo.Value, "DURATION",
				"stop after this time, such as 30s; a program that still runs is ended, and the exit code is 130", duration(&o.For)),
		}, jsonFlag(&o.JSON)),
		run: bind(&o, runWatch),
	}
}

func runWatch(ctx context.Context, a *invocation, o watchOptions, l cargo.Line) error {
	m := a.Machine
	w := watch.Options{Program: len(l.Trailing) > 0}
	switch {
	case l.HasTrailing && !w.Program:
		return usage("no command after --", "gpubuild watch -- COMMAND")
	case !w.Program && slices.Contains(o.FailOn, gpu.AlertIdle):
		return usage("--fail-on idle needs a program: without one, a GPU may be idle", "gpubuild watch --fail-on idle -- COMMAND")
	}
	if err := (report.Files{JSON: o.JSON}).Check(m); err != nil {
		m.NoteJSON() // there is no place for an answer
		return err
	}
	s, err := session.Anywhere(m, l)
	if err != nil {
		return err
	}
	table := s.Config.Watch.Value
	if o.FailOn == nil && table != nil {
		o.FailOn = table.FailOn
	}
	w.Thresholds, w.FailOn = table.Thresholds(), o.FailOn
	lines := watch.Lines{Shell: m.Shell, JSON: o.JSON != nil && *o.JSON == "", Quiet: w.Program || o.JSON != nil && *o.JSON != ""}
	w.Sample = lines.Write
	var summary gpu.Summary
	var watched, ended error
	if w.Program {
		summary, watched, ended = watch.Command(ctx, m, w, o.For, l.Trailing, lines.JSON)
	} else {
		summary, watched = watch.Alone(ctx, m, w, o.For)
	}
	watch.Print(m, summary, watched)
	late := errors.Is(ended, context.DeadlineExceeded)
	if late {
		m.Shell.Warning("the program still ran after %s (--for), and was ended", o.For)
	}
	if ended == nil || late {
		ended = watch.Verdict(summary)
	}
	if ended == nil && late {
		ended = exit.Code(exit.Interrupted)
	}
	if ended == nil && watched != nil && !w.Program {
		ended = exit.Code(exit.Unproved)
	}
	var findings []finding.Finding
	if watched != nil {
		f := finding.New("driver", watched.Error())
		if ended != nil {
			f.Severity = finding.Error
		}
		findings = append(findings, f)
	} else {
		findings = report.WatchFindings(summary)
	}
	var child *buildenv.ExitError
	switch {
	case late, errors.Is(ended, context.Canceled):
		findings = append(findings, finding.New("watch.ended", "the program was ended before its own end"))
	case errors.As(ended, &child):
		findings = append(findings, finding.New("run.failed", ended.Error()))
	}
	if !lines.JSON {
		return cmp.Or(report.Answer(m, o.JSON, "watch", ended == nil, findings, summary), ended)
	}
	m.NoteJSON()
	answer, err := report.Envelope("watch", ended == nil, findings, summary)
	var line bytes.Buffer // the last of the lines
	if err == nil {
		err = json.Compact(&line, answer)
	}
	if err == nil {
		err = m.Shell.Data(line.String() + "\n")
	}
	if errors.Is(err, syscall.EPIPE) { // the reader has ended, which does not change how the program did
		err = nil
	}
	return cmp.Or(err, ended)
}
