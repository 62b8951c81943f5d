package explain

import (
	"fmt"
	"slices"
	"strings"
)

// minLiteral is the shortest literal text that brings a line to be looked at.
const minLiteral = 6

func ruleError(id, why string) error { return fmt.Errorf("rules.toml: %s: %s", id, why) }

// parseChecked is Parse, and refuses a rule that cannot work.
func parseChecked(text string) (*Rules, error) {
	rs, err := Parse(text)
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	for _, r := range rs.All {
		if r.ID == "" || seen[r.ID] {
			return nil, ruleError(r.ID, "the id is empty or stands twice")
		}
		seen[r.ID] = true
		if err := r.check(); err != nil {
			return nil, err
		}
	}
	return rs, nil
}

func (r *Rule) check() error {
	switch {
	case r.Kind.order() < 0:
		return ruleError(r.ID, fmt.Sprintf("the kind %q is not known", r.Kind))
	case r.Cause == "" || r.Fix == "" || len(r.Source) == 0:
		return ruleError(r.ID, "cause, fix and source are needed")
	case r.Kind == Silent && (len(r.On) > 0 || r.Confirm != nil):
		return ruleError(r.ID, "what leaves no text has nothing to match")
	case r.Kind == Silent:
		return r.checkNames()
	case len(r.On) == 0 || r.Confirm == nil:
		return ruleError(r.ID, "on and confirm are needed")
	}
	for _, l := range r.On {
		if len(l) < minLiteral || strings.ContainsAny(l, "\r\n\x1b\x00") {
			return ruleError(r.ID, fmt.Sprintf("the literal %q is shorter than %d bytes or holds a line's end", l, minLiteral))
		}
	}
	return r.checkNames()
}

// checkNames refuses a {name} that nothing can ever fill in.
func (r *Rule) checkNames() error {
	known := factNames
	if r.Confirm != nil {
		known = append(slices.Clip(known), r.Confirm.SubexpNames()...)
	}
	if r.Of != "" {
		known = append(slices.Clip(known), "is", "get")
	}
	for _, text := range slices.Concat([]string{r.Cause, r.Fix, r.Windows, r.Command}, r.Commands, r.Here) {
		for _, m := range named.FindAllStringSubmatch(text, -1) {
			if !slices.Contains(known, m[1]) {
				return ruleError(r.ID, m[0]+" is neither a group of confirm nor a fact")
			}
		}
	}
	return nil
}
