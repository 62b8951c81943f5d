package doctor

import (
	"fmt"
	"slices"
	"strings"

	"gpubuild/buildenv/finding"
	"gpubuild/cmd/internal/console"
)

// sections are the steps that a machine is checked for, and the checks of each; what is listed nowhere belongs to the first.
var sections = []struct {
	name string
	ids  []string
}{
	{"Build", nil},
	{"Link", []string{"link.libraries"}},
	{"Run", []string{"driver", "devices", "vulkan", "loader.path", "loader.stubs", "wsl"}},
	{"Prove", []string{"cupti", "probe"}},
}

// section is the index of a check's section.
func (c Check) section() int {
	return max(0, slices.IndexFunc(sections[:], func(s struct {
		name string
		ids  []string
	}) bool {
		return slices.Contains(s.ids, c.ID)
	}))
}

// Text words the checks for a person: by section, one fact a line, and the verdict at the end.
func Text(checks []Check) string {
	var b strings.Builder
	for i, s := range sections {
		head := s.name + "\n"
		for _, c := range checks {
			if c.section() != i {
				continue
			}
			b.WriteString(head)
			head = ""
			c.write(&b)
		}
	}
	return b.String() + "\n" + Verdict(checks) + "\n"
}

func (c Check) write(b *strings.Builder) {
	line := func(first, text string) {
		for l := range strings.SplitSeq(text, "\n") {
			for _, l := range console.Wrap(l, 100-len("✓ cuda.toolkit  ")) {
				fmt.Fprintf(b, "%s %s\n", first, l)
				first = strings.Repeat(" ", 16)
			}
		}
	}
	line(fmt.Sprintf("%s %-14s", c.Mark(), c.ID), c.Says)
	if c.State == OK || c.State == Info {
		return
	}
	if c.Breaks != "" {
		line(strings.Repeat(" ", 16), "without it: "+c.Breaks)
	}
	if len(c.Places) > 0 {
		line(strings.Repeat(" ", 16), "looked at: "+strings.Join(c.Places, "; "))
	}
	if c.Fix != "" {
		fmt.Fprintf(b, "%s fix: %s\n", strings.Repeat(" ", 16), c.Fix) // whole, so that it can be pasted
	}
}

// Verdict sums up what the machine is ready for.
func Verdict(checks []Check) string {
	var build, prove []string
	for _, c := range checks {
		bad := c.State == Missing || c.State == Misfit
		switch s := sections[c.section()].name; {
		case bad && (s == "Build" || s == "Link"):
			build = append(build, c.reason())
		case bad, c.Absent:
			prove = append(prove, c.reason())
		}
	}
	say := func(what string, missing []string) string {
		if i := slices.IndexFunc(checks, func(c Check) bool { return c.Unsure != "" }); i >= 0 && len(missing) == 0 {
			return "Probably ready to " + what + ": " + checks[i].Unsure + "."
		}
		if len(missing) == 0 {
			return "Ready to " + what + "."
		}
		return fmt.Sprintf("Not ready to %s: %s.", what, strings.Join(missing, ", "))
	}
	return say("build", build) + " " + say("prove", append(build, prove...))
}

// reason is what a check says in a few words, or where to look.
func (c Check) reason() string {
	first, _, _ := strings.Cut(c.Says, "\n")
	first, _, _ = strings.Cut(first, ";")
	if len(first) > 90 {
		return c.ID + " (see above)"
	}
	return first
}

// Findings are the checks that say that something is wrong.
func Findings(checks []Check) []finding.Finding {
	var out []finding.Finding
	for _, c := range checks {
		severity := finding.Error
		switch c.State {
		case Warning:
			severity = finding.Warning
		case OK, Info:
			continue
		}
		out = append(out, finding.Finding{
			ID:       c.ID,
			Severity: severity,
			Message:  c.Says,
			Fix:      c.Fix,
			Evidence: strings.Join(c.Places, ", "),
		})
	}
	return out
}
