package cli

import (
	"context"
	"strings"

	"gpubuild/cmd/internal/help"
	"gpubuild/cmd/internal/session"
	"gpubuild/cmd/internal/watch"
	"gpubuild/gpu"
	"gpubuild/toolchain/cargo"
)

func watchVerb() verb {
	var o watch.Command
	return verb{
		Verb: help.Verb{
			Name: "watch", Args: "[-- COMMAND]", Usage: "watch the GPUs, alone or while a program runs",
			Examples: []string{"gpubuild watch", "gpubuild watch --fail-on idle,throttle -- target/release/train"},
			Text: "Reads twice a second: utilisation, memory, temperature, clocks, power, throttling, errors. Says when a GPU is hot, " +
				"slowed down, full, failing, or idle while the program runs; the thresholds are in [watch] of gpubuild.toml.\n" +
				"Exits with the program's code if it failed. Otherwise --fail-on exits with 23 after one of these alerts, and with 21 if " +
				"the GPU could not be asked about one of them all the time. The program starts when the driver has answered, after at " +
				"most 10 seconds.\n" +
				"--json writes a line for each sample, then the summary; --json=FILE writes the summary only.",
		},
		flags: append([]*flag{
			newFlag("fail-on", cargo.Value, "ALERTS", "exit with 23 after one of these: "+strings.Join(gpu.AlertKinds, ", "),
				func(v string) error { return watch.AddFailOn(&o.FailOn, v) }),
			newFlag("for", cargo.Value, "DURATION",
				"stop after this time, such as 30s; a program that still runs is ended, and the exit code is 130", duration(&o.For)),
		}, jsonFlag(&o.JSON)),
		run: func(ctx context.Context, a *invocation, l cargo.Line) error {
			s, err := session.Anywhere(ctx, a.Machine, l)
			if err != nil {
				return err
			}
			if o.Words = l.Trailing; l.HasTrailing && len(o.Words) == 0 {
				return usage("no command after --", "gpubuild watch -- COMMAND")
			}
			return o.Run(ctx, s)
		},
	}
}
