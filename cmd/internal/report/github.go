package report

import (
	"cmp"
	"fmt"
	"strings"

	"gpubuild/buildenv/finding"
)

// What GitHub keeps of one step (docs.github.com, workflow commands; actions/toolkit docs/problem-matchers.md): more of one kind is dropped
// without a word.
const (
	annotationsOfAKind = 9       // of ten: a notice may say that there are more
	summaryLimit       = 1 << 20 // bytes of GITHUB_STEP_SUMMARY; a larger file is thrown away as a whole
	messageLimit       = 4 << 10
)

// escapeData and escapeProperty are the inverse of the runner's own reading (actions/runner, src/Runner.Common/ActionCommand.cs).
func escapeData(s string) string {
	return strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A").Replace(s)
}

func escapeProperty(s string) string {
	return strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C").Replace(s)
}

// Annotations renders findings as workflow commands, a line each, errors first; at most nine of a kind, and a notice if there are more,
// which the step summary lists. Paths are relative to the checkout, with slashes; a path outside it is part of the message.
func Annotations(findings []finding.Finding) (out string) {
	left := 0
	for _, severity := range []string{finding.Error, finding.Warning, finding.Note} {
		room := annotationsOfAKind
		for _, f := range findings {
			switch {
			case f.Severity != severity:
			case room == 0:
				left++
			default:
				room--
				out += annotation(f)
			}
		}
	}
	if left > 0 {
		out += fmt.Sprintf("::notice title=gpubuild::%d more in the step summary\n", left)
	}
	return out
}

// says is a finding as a text: its message, what it marks, and what to do.
func says(f finding.Finding) string {
	text := cmp.Or(SanitizeLines(f.Message), f.ID)
	if f.Label != "" {
		text += "\n" + SanitizeLines(f.Label)
	}
	if f.Fix != "" {
		text += "\nhint: " + SanitizeLines(f.Fix)
	}
	return text
}

func annotation(f finding.Finding) string {
	message, properties := says(f), []string{}
	switch {
	case f.Path == "":
	case Absolute(f.Path):
		message += "\nin " + place(f)
	default:
		properties = append(properties, "file="+escapeProperty(Sanitize(f.Path)))
		if f.Line > 0 {
			properties = append(properties, fmt.Sprintf("line=%d", f.Line))
			if f.Column > 0 {
				properties = append(properties, fmt.Sprintf("col=%d", f.Column))
			}
			if f.Width > 0 {
				properties = append(properties, fmt.Sprintf("endColumn=%d", f.Column+f.Width))
			}
		}
	}
	properties = append(properties, "title="+escapeProperty(Sanitize("gpubuild: "+f.ID)))
	kind := f.Severity
	if kind == finding.Note {
		kind = "notice"
	}
	return "::" + kind + " " + strings.Join(properties, ",") + "::" + escapeData(cut(message)) + "\n"
}

// Absolute says of a path in either system's form whether it begins at a root.
func Absolute(path string) bool {
	return strings.HasPrefix(path, "/") || strings.HasPrefix(path, `\`) || len(path) > 2 && path[1] == ':' &&
		(path[2] == '\\' || path[2] == '/')
}

func place(f finding.Finding) string {
	if f.Line > 0 {
		return fmt.Sprintf("%s:%d", Sanitize(f.Path), f.Line)
	}
	return Sanitize(f.Path)
}
