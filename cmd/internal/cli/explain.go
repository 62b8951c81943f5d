package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/local"
	"gpubuild/cmd/internal/diagnose"
	"gpubuild/toolchain/cargo"
	"gpubuild/toolchain/explain"
)

func explainVerb() verb {
	var o Options
	return verb{
		name: "explain", usage: "say what a failed build's log means, or a code: `LOG`, `-` or `CODE`",
		text: "gpubuild build --features cuda 2>&1 | gpubuild explain\ngpubuild explain build.log\ngpubuild explain LNK1181\n\n" +
			"Names the first cause that is known, what to do, and where that is written. Ends 1 when the log has errors and none " +
			"is known.",
		flags: answerFlag(&o),
		run: func(ctx context.Context, a *invocation, l cargo.Line) error {
			return runExplain(ctx, a, o, l)
		},
	}
}

// runExplain reads a log, or looks a code up.
func runExplain(ctx context.Context, a *invocation, o Options, l cargo.Line) error {
	rules, err := explain.Default()
	if err != nil {
		return err
	}
	if len(l.Positional) > 1 {
		return &usageError{"explain takes one log or one code", "gpubuild explain build.log"}
	}
	name := "-"
	if len(l.Positional) == 1 {
		name = l.Positional[0]
	} else if terminalIn(a.Stdin) {
		return &usageError{"explain needs a log or a code", "gpubuild explain build.log, or gpubuild build … 2>&1 | gpubuild explain"}
	}
	if name == "-" {
		if a.Stdin == nil {
			return a.explainLog(ctx, o, rules, "-", strings.NewReader(""))
		}
		return a.explainLog(ctx, o, rules, "-", a.Stdin)
	}
	f, err := os.Open(a.Host.Abs(name))
	if err == nil {
		defer f.Close()
		return a.explainLog(ctx, o, rules, name, f)
	}
	if meaning, known := diagnose.MeaningOf(rules, name); known {
		if o.JSON != nil {
			return a.answer(o, "explain", true, nil, meaning)
		}
		_, err := io.WriteString(a.Shell.Out, meaning.Text())
		return err
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return &usageError{fmt.Sprintf("the log %s cannot be read: %v", name, err), "name a file that you may read, or - for " +
			"standard input"}
	}
	fix := "give a log, - for standard input, an exit code of gpubuild, or a code such as LNK1181 or CUDA_ERROR_NO_DEVICE"
	if near := rules.Near(name); len(near) > 0 {
		fix = "did you mean " + strings.Join(near, ", ") + "?"
	}
	return &usageError{fmt.Sprintf("%s is no file, and no code that is known", name), fix}
}

func terminalIn(r io.Reader) bool {
	f, ok := r.(*os.File)
	return ok && local.Terminal(f)
}

func (a *invocation) explainLog(ctx context.Context, o Options, rules *explain.Rules, name string, r io.Reader) error {
	found, err := diagnose.ReadLog(ctx, a.Machine, rules, name, r)
	if err != nil {
		return err
	}
	// A failure that nobody knows ends with 1: a script must not take "explained nothing" for an explanation.
	var end error
	if !found.Known && len(found.Errors) > 0 {
		end = exit.Code(exit.Other)
	}
	if o.JSON != nil {
		err = a.answer(o, "explain", end == nil, found.Findings(), found)
	} else {
		_, err = io.WriteString(a.Shell.Out, found.Text())
	}
	if err != nil {
		return err
	}
	return end
}
