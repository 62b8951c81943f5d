package doctor

import (
	"fmt"
	"strings"

	"gpubuild/buildenv/finding"
)

// Text words the checks for a person.
func Text(checks []Check) string {
	var b strings.Builder
	for _, c := range checks {
		fmt.Fprintf(&b, "%s %-14s %s\n", c.Mark(), c.ID, strings.ReplaceAll(c.Says, "\n", "\n    "))
		if c.State == OK || c.State == Info {
			continue
		}
		if c.Breaks != "" {
			fmt.Fprintf(&b, "    without it: %s\n", c.Breaks)
		}
		for _, p := range c.Places {
			fmt.Fprintf(&b, "    looked at: %s\n", p)
		}
		if c.Fix != "" {
			fmt.Fprintf(&b, "    fix: %s\n", c.Fix)
		}
	}
	return b.String()
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
