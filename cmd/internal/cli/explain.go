package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/finding"
	"gpubuild/buildenv/local"
	"gpubuild/cmd/internal/diagnose"
	"gpubuild/cmd/internal/help"
	"gpubuild/toolchain/cargo"
	"gpubuild/toolchain/explain"
)

func explainVerb() verb {
	var json *string
	return verb{
		Verb: help.Verb{
			Name: "explain", Args: "[LOG|CODE]", Usage: "explain the log of a failed build, or an error code",
			Examples: []string{"gpubuild build --features cuda 2>&1 | gpubuild explain", "gpubuild explain build.log",
				"gpubuild explain LNK1181"},
			Text: "Names the first known cause, what to do, and where that is documented. Exits with 1 if the log has errors and none " +
				"of them is known.",
		},
		instead: "name one log or code at a time: gpubuild explain build.log",
		flags:   []*flag{jsonFlag(&json)},
		run:     bind(&json, runExplain),
	}
}

// runExplain reads a log, or looks a code up.
func runExplain(_ context.Context, a *invocation, jsonTo *string, l cargo.Line) error {
	rules, err := explain.Default()
	if err != nil {
		return err
	}
	name := "-"
	if len(l.Positional) == 1 {
		name = l.Positional[0]
	} else if f, ok := a.Stdin.(*os.File); ok && local.Terminal(f) {
		return usage("explain needs a log or a code",
			"gpubuild explain build.log, or gpubuild build --features cuda 2>&1 | gpubuild explain")
	}
	if name == "-" {
		if a.Stdin == nil {
			return a.explainLog(jsonTo, rules, "-", strings.NewReader(""))
		}
		return a.explainLog(jsonTo, rules, "-", a.Stdin)
	}
	f, err := local.OpenNamed(a.Host, a.Host.Abs(name), buildenv.Log)
	if err == nil {
		defer f.Close()
		return a.explainLog(jsonTo, rules, name, f)
	}
	meaning, known := diagnose.MeaningOf(rules, name)
	if rule, ours := finding.Known(name); ours {
		meaning.Finding, known = rule.Title+". "+rule.Help, true
	}
	if known {
		if jsonTo != nil {
			return a.answer(jsonTo, "explain-code", true, nil, meaning)
		}
		return a.Shell.Page(meaning.Text())
	}
	if errors.Is(err, buildenv.ErrUnbounded) {
		return usage(fmt.Sprintf("the log cannot be read: %v", err), "name a regular file or a pipe; the end of a longer log: "+
			"tail -c 16M "+buildenv.PosixWords(name)+" | gpubuild explain")
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return usage(fmt.Sprintf("the log %s cannot be read: %v", name, err), "name a file that you may read, or - for "+
			"standard input")
	}
	fix := "give a log, - for standard input, an exit code of gpubuild, or a code such as LNK1181 or CUDA_ERROR_NO_DEVICE"
	var ours []string
	for _, r := range finding.Rules() {
		ours = append(ours, r.ID)
	}
	if near := rules.Near(name, ours); len(near) > 0 {
		fix = "did you mean " + strings.Join(near, ", ") + "?"
	}
	return usage(fmt.Sprintf("`%s` is neither a file nor a known code", name), fix)
}

func (a *invocation) explainLog(jsonTo *string, rules *explain.Rules, name string, r io.Reader) error {
	found, err := diagnose.ReadLog(rules, name, r)
	if err != nil {
		return err
	}
	// A failure that nobody knows ends with 1: a script must not take "explained nothing" for an explanation.
	var end error
	if !found.Known && len(found.Errors) > 0 {
		end = exit.Code(exit.Other)
	}
	if jsonTo != nil {
		err = a.answer(jsonTo, "explain", end == nil, found.Findings(), found)
	} else {
		err = a.Shell.Page(found.Text())
	}
	if err != nil {
		return err
	}
	return end
}
