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
	{"Run", []string{"driver", "devices", "vulkan", "loader.path", "loader.stubs", "program", "wsl"}},
	{"Prove", []string{"cupti", "probe"}},
}

// section is the index of a check's section.
func (c Check) section() int {
	for i, s := range sections {
		if slices.Contains(s.ids, c.ID) {
			return i
		}
	}
	return 0
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
	return console.Short(b.String() + "\n" + Verdict(checks) + "\n")
}

func (c Check) write(b *strings.Builder) {
	below := "\n" + strings.Repeat(" ", 17)
	lines := []string{fmt.Sprintf("%s %-14s %s", c.Mark(), c.ID, strings.ReplaceAll(c.Says, "\n", below))}
	if c.State != OK && c.State != Info {
		for _, l := range [][2]string{{"without it: ", c.Breaks}, {"looked at: ", strings.Join(c.Places, "; ")}, {"fix: ", c.Fix}} {
			if l[1] != "" {
				lines = append(lines, l[0]+l[1])
			}
		}
	}
	b.WriteString(strings.Join(lines, below) + "\n")
}

// Verdict sums up what the machine is ready for.
func Verdict(checks []Check) string {
	var build, prove []string
	for _, c := range checks {
		switch bad := c.Absent || c.State == Missing || c.State == Misfit; {
		case bad && c.section() == 0:
			build = append(build, c.reason())
		case bad:
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
	what := "prove"
	if len(build) > 0 {
		what = "prove what is built"
	}
	return say("build", build) + " " + say(what, prove)
}

// reason is what a check says in a few words, or where to look.
func (c Check) reason() string {
	first, _, _ := strings.Cut(c.Says, "\n")
	first, _, _ = strings.Cut(first, "; ")
	if short, _, why := strings.Cut(first, ": "); why && len(first) > 90 && len(short) > 10 { // "not found" alone says nothing
		first = short
	}
	if len(first) > 90 {
		return c.ID + " (see above)"
	}
	return strings.TrimRight(first, ":")
}

// Findings are the checks that say that something is wrong.
func Findings(checks []Check) []finding.Finding {
	var out []finding.Finding
	for _, c := range checks {
		if c.State == OK || c.State == Info {
			continue
		}
		f := finding.Finding{ID: c.ID, Severity: finding.Error, Message: c.Says, Fix: c.Fix, Evidence: strings.Join(c.Places, ", ")}
		if c.State == Warning {
			f.Severity = finding.Warning
		}
		out = append(out, f)
	}
	return out
}
