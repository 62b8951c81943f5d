package report

import (
	"fmt"
	"strings"

	"gpubuild/buildenv/finding"
)

// What GitHub keeps of one step (docs.github.com, workflow commands; actions/toolkit docs/problem-matchers.md): more of one kind is dropped
// without a word.
const (
	annotationsOfAKind = 10
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

// kind is the workflow command of a severity.
func kind(severity string) string {
	switch severity {
	case finding.Error:
		return "error"
	case finding.Warning:
		return "warning"
	}
	return "notice"
}

// Annotations renders findings as workflow commands, a line each, errors first; at most ten of a kind. The others are counted in a notice,
// and listed in the step summary. Paths are relative to the checkout, with slashes; a path outside it is part of the message.
func Annotations(findings []finding.Finding) string {
	var b strings.Builder
	left := map[string]int{}
	notices := annotationsOfAKind
	for _, f := range findings {
		left[kind(f.Severity)]++
	}
	overflow := left["error"] > annotationsOfAKind || left["warning"] > annotationsOfAKind || left["notice"] > annotationsOfAKind
	if overflow {
		notices-- // one is for the count
	}
	for _, k := range []string{"error", "warning", "notice"} {
		room := annotationsOfAKind
		if k == "notice" {
			room = notices
		}
		for _, f := range findings {
			if kind(f.Severity) != k || room == 0 {
				continue
			}
			room--
			left[k]--
			b.WriteString(annotation(k, f))
		}
	}
	if overflow {
		var rest []string
		for _, k := range []string{"error", "warning", "notice"} {
			if left[k] > 0 {
				rest = append(rest, Count(left[k], k))
			}
		}
		fmt.Fprintf(&b, "::notice title=gpubuild::%s more in the step summary\n", escapeData(strings.Join(rest, ", ")))
	}
	return b.String()
}

func annotation(k string, f finding.Finding) string {
	message := PlainLines(f.Message)
	properties := []string{}
	switch {
	case f.Path == "":
	case Absolute(f.Path):
		message += "\nin " + place(f)
	default:
		properties = append(properties, "file="+escapeProperty(Plain(f.Path)))
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
	properties = append(properties, "title="+escapeProperty(Plain("gpubuild: "+f.ID)))
	if f.Label != "" {
		message += "\n" + PlainLines(f.Label)
	}
	if f.Fix != "" {
		message += "\nhint: " + PlainLines(f.Fix)
	}
	return "::" + k + " " + strings.Join(properties, ",") + "::" + escapeData(cut(message, messageLimit)) + "\n"
}

// Absolute says of a path in either system's form whether it begins at a root.
func Absolute(path string) bool {
	return strings.HasPrefix(path, "/") || strings.HasPrefix(path, `\`) || len(path) > 2 && path[1] == ':' &&
		(path[2] == '\\' || path[2] == '/')
}

func place(f finding.Finding) string {
	if f.Line > 0 {
		return fmt.Sprintf("%s:%d", Plain(f.Path), f.Line)
	}
	return Plain(f.Path)
}
