package verify

import (
	"regexp"
	"regexp/syntax"
	"strings"
)

// matcher is a regular expression that is asked of thousands of names of kilobytes, of which few match: one that holds none of the literals of
// which every match has one is not looked at closer.
type matcher struct {
	re       *regexp.Regexp
	literals []string // in lower case; empty: not known
}

func newMatcher(re *regexp.Regexp) matcher {
	if re == nil {
		return matcher{}
	}
	tree, err := syntax.Parse(re.String(), syntax.Perl)
	if err != nil {
		return matcher{re: re}
	}
	return matcher{re, literals(tree)}
}

// match asks the expression of a name; lower is the name in lower case.
func (m matcher) match(name, lower string) bool {
	if m.re == nil {
		return false
	}
	for _, l := range m.literals {
		if strings.Contains(lower, l) {
			return m.re.MatchString(name)
		}
	}
	return len(m.literals) == 0 && m.re.MatchString(name)
}

// literals answers texts of which every match holds one, or nothing where there are none.
func literals(t *syntax.Regexp) []string {
	switch t.Op {
	case syntax.OpCapture, syntax.OpPlus:
		return literals(t.Sub[0])
	case syntax.OpRepeat:
		if t.Min > 0 {
			return literals(t.Sub[0])
		}
		return nil
	case syntax.OpAlternate:
		var all []string
		for _, s := range t.Sub {
			l := literals(s)
			if shortest(l) == 0 {
				return nil
			}
			all = append(all, l...)
		}
		return all
	case syntax.OpConcat:
		var best []string
		run := []string{""} // what the parts so far, since the last that is not known exactly, can be
		better := func(l []string) {
			if shortest(l) > shortest(best) {
				best = l
			}
		}
		for _, s := range t.Sub {
			if longer := joined(run, exactly(s)); len(longer) > 0 {
				run = longer
				continue
			}
			better(run)
			run = []string{""}
			if l := exactly(s); len(l) > 0 {
				run = l
			} else {
				better(literals(s))
			}
		}
		better(run)
		return best
	}
	if l := exactly(t); shortest(l) > 0 {
		return l
	}
	return nil
}

// exactly answers every text, in lower case, that an expression can match; nothing where they are many or cannot be told.
func exactly(t *syntax.Regexp) []string {
	switch t.Op {
	case syntax.OpEmptyMatch, syntax.OpBeginLine, syntax.OpBeginText, syntax.OpEndLine, syntax.OpEndText:
		return []string{""}
	case syntax.OpLiteral:
		for _, r := range t.Rune {
			if r >= 0x80 || t.Flags&syntax.FoldCase != 0 && strings.ContainsRune("kKsS", r) {
				return nil // some letters beyond ASCII fold to k and s, and lower case is not folding
			}
		}
		return []string{strings.ToLower(string(t.Rune))}
	case syntax.OpCharClass:
		var all []string
		for i := 0; i+1 < len(t.Rune); i += 2 {
			for r := t.Rune[i]; r <= t.Rune[i+1]; r++ {
				if r >= 0x80 || len(all) == mostLiterals {
					return nil
				}
				all = append(all, strings.ToLower(string(r)))
			}
		}
		return all
	case syntax.OpCapture:
		return exactly(t.Sub[0])
	case syntax.OpQuest:
		if l := exactly(t.Sub[0]); len(l) > 0 {
			return append([]string{""}, l...)
		}
	case syntax.OpAlternate:
		var all []string
		for _, s := range t.Sub {
			l := exactly(s)
			if len(l) == 0 || len(all)+len(l) > mostLiterals {
				return nil
			}
			all = append(all, l...)
		}
		return all
	case syntax.OpConcat:
		all := []string{""}
		for _, s := range t.Sub {
			if all = joined(all, exactly(s)); len(all) == 0 {
				return nil
			}
		}
		return all
	}
	return nil
}

const mostLiterals = 64

// joined answers each of a followed by each of b, or nothing where that is too much.
func joined(a, b []string) []string {
	if len(a)*len(b) > mostLiterals {
		return nil
	}
	var out []string
	for _, x := range a {
		for _, y := range b {
			out = append(out, x+y)
		}
	}
	return out
}

// shortest is the length of the shortest text; 0 where there are none.
func shortest(list []string) int {
	n := 0
	for i, s := range list {
		if i == 0 || len(s) < n {
			n = len(s)
		}
	}
	return n
}
