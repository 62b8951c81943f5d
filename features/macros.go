package features

import (
	"regexp"
	"strings"
)

// macro is a macro_rules! of a package's own by which it tests features: one whose body holds the test, one that takes the feature's name from its caller,
// or one that calls either. A #[cfg] in a macro's body is that of the crate in which it is called.
// Source: The Rust Reference, "Macros by example" and "Conditional compilation".
type macro struct {
	name     string
	exported bool // #[macro_export]
	arms     []macroArm
}

// macroArm is one `(pattern) => { body };`.
type macroArm struct {
	pattern, body string
}

var (
	macroHead = regexp.MustCompile(`((?:#\[[^\]]*\]\s*)*)\bmacro_rules!\s*(\w+)\s*([({\[])`)
	takenName = regexp.MustCompile(`\bfeature\s*=\s*(\$\w+)`)
	called    = regexp.MustCompile(`\b(\w+)\s*!\s*([({\[])`)
)

// macrosIn reads the macros that a text defines and answers the text without them. The text is what code answers.
func macrosIn(text string) (list []macro, rest string) {
	if !strings.Contains(text, "macro_rules!") {
		return nil, text
	}
	var out strings.Builder
	at := 0
	for _, m := range macroHead.FindAllStringSubmatchIndex(text, -1) {
		if m[0] < at { // within another macro's body
			continue
		}
		open := m[6]
		end := closingAt(text, open)
		if end < 0 {
			break
		}
		def := macro{name: text[m[4]:m[5]], exported: strings.Contains(text[m[2]:m[3]], "macro_export")}
		for body := text[open+1 : end]; ; {
			pattern, rest, ok := group(body)
			if !ok {
				break
			}
			inner, rest, ok := group(strings.TrimPrefix(strings.TrimSpace(rest), "=>"))
			if !ok {
				break
			}
			def.arms = append(def.arms, macroArm{pattern, inner})
			body = strings.TrimPrefix(strings.TrimSpace(rest), ";")
		}
		list = append(list, def)
		out.WriteString(text[at:m[3]]) // its attributes stay: they may test a feature themselves
		out.WriteString(strings.Map(func(r rune) rune {
			if r == '\n' {
				return r
			}
			return ' '
		}, text[m[3]:end+1]))
		at = end + 1
	}
	out.WriteString(text[at:])
	return list, out.String()
}

// group takes a bracketed group from the beginning of a text.
func group(text string) (inner, rest string, ok bool) {
	text = strings.TrimSpace(text)
	if text == "" || !strings.ContainsRune("({[", rune(text[0])) {
		return "", text, false
	}
	end := closingAt(text, 0)
	if end < 0 {
		return "", text, false
	}
	return text[1:end], text[end+1:], true
}

// closingAt finds the bracket that closes the one at a place; -1 where none does. Strings are blanks.
func closingAt(text string, open int) int {
	depth := 0
	for i := open; i < len(text); i++ {
		switch text[i] {
		case '(', '{', '[':
			depth++
		case ')', '}', ']':
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return -1
}

// gatingMacros is what of a package's macros can test a feature: by name, each with the arms that do.
type gatingMacros map[string]*gatingMacro

type gatingMacro struct {
	exported bool
	arms     []gatingArm
}

type gatingArm struct {
	macroArm
	gates bool     // the body itself tests the feature
	names []string // fragments by which it takes a feature's name: $name
}

// gatingOf finds the macros that test a feature, or any feature that they are given: those of the list, and what known ones of other packages give them.
func gatingOf(list []macro, test featureTest, known gatingMacros) gatingMacros {
	out := gatingMacros{}
	for name, m := range known {
		out[name] = m
	}
	for _, def := range list {
		delete(out, def.name) // the package's own goes before another's
	}
	for changed := true; changed; { // a macro may call one that stands behind it
		changed = false
		for _, def := range list {
			old := out[def.name]
			now := &gatingMacro{exported: def.exported}
			n := 0
			for _, arm := range def.arms {
				a := gatingArm{macroArm: arm}
				a.gates = testsIn(arm.body, test) || out.calledIn(arm.body, test)
				for _, m := range takenName.FindAllStringSubmatch(arm.body, -1) {
					a.names = mergeStrings(a.names, []string{m[1]})
				}
				for _, fragment := range fragments(arm.pattern) { // handed on to another macro that takes a name
					if !contains(a.names, fragment) && out.calledIn(strings.ReplaceAll(arm.body, fragment, test.quoted), test) && !a.gates {
						a.names = append(a.names, fragment)
					}
				}
				if a.gates || len(a.names) > 0 {
					n += 1 + len(a.names)
				}
				now.arms = append(now.arms, a)
			}
			if n == 0 || old != nil && old.size() >= n {
				continue
			}
			out[def.name] = now
			changed = true
		}
	}
	return out
}

func (m *gatingMacro) size() int {
	n := 0
	for _, a := range m.arms {
		if a.gates || len(a.names) > 0 {
			n += 1 + len(a.names)
		}
	}
	return n
}

var fragment = regexp.MustCompile(`(\$\w+)\s*:\s*(?:literal|tt|expr)\b`)

// fragments lists what of a pattern can stand for a string.
func fragments(pattern string) []string {
	var out []string
	for _, m := range fragment.FindAllStringSubmatch(pattern, -1) {
		out = append(out, m[1])
	}
	return out
}

// mentioned is a quick look for calls.
func (g gatingMacros) mentioned(text string) bool {
	for name := range g {
		if strings.Contains(text, name) {
			return true
		}
	}
	return false
}

// calledIn says whether a text calls one of the macros so that the feature decides.
func (g gatingMacros) calledIn(text string, test featureTest) bool {
	if len(g) == 0 || !strings.Contains(text, "!") {
		return false
	}
	for _, m := range called.FindAllStringSubmatchIndex(text, -1) {
		def := g[text[m[2]:m[3]]]
		if def == nil {
			continue
		}
		end := closingAt(text, m[4])
		if end < 0 {
			continue
		}
		if def.decidedBy(text[m[4]+1:end], test) {
			return true
		}
	}
	return false
}

// decidedBy says whether a call with these words compiles something only with, or only without, the feature.
func (m *gatingMacro) decidedBy(words string, test featureTest) bool {
	for _, arm := range m.arms {
		lead, fragments, _ := strings.Cut(arm.pattern, "$")
		if !strings.HasPrefix(squeeze(words), squeeze(lead)) || fragments == "" && squeeze(words) != squeeze(lead) {
			continue // another arm's words
		}
		if strings.TrimSpace(words) == "" && strings.TrimSpace(arm.pattern) != "" {
			continue // there is nothing that it could put the test around
		}
		if arm.gates {
			return true
		}
		for _, name := range arm.names {
			if arm.gives(name, words, test.quoted) {
				return true
			}
		}
	}
	return false
}

// gives says whether a fragment of the arm's pattern is the quoted word: by its place between commas, or where a repetition hides that, anywhere outside
// braces.
func (a *gatingArm) gives(name, words, quoted string) bool {
	if !strings.Contains(words, quoted) {
		return false
	}
	args := splitTop(words)
	for i, part := range splitTop(a.pattern) {
		if strings.Contains(part, "$(") {
			break
		}
		if strings.HasPrefix(strings.TrimSpace(part), name+":") || strings.HasPrefix(squeeze(part), name+":") {
			return i < len(args) && strings.HasPrefix(strings.TrimSpace(args[i]), quoted)
		}
	}
	depth := 0
	for i := 0; i < len(words); i++ {
		switch words[i] {
		case '{':
			depth++
		case '}':
			depth--
		}
		if depth == 0 && strings.HasPrefix(words[i:], quoted) {
			return true
		}
	}
	return false
}

// splitTop splits at commas outside brackets.
func splitTop(text string) []string {
	var out []string
	depth, begin := 0, 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '(', '{', '[':
			depth++
		case ')', '}', ']':
			depth--
		case ',':
			if depth == 0 {
				out = append(out, text[begin:i])
				begin = i + 1
			}
		}
	}
	return append(out, text[begin:])
}

func squeeze(s string) string { return strings.Join(strings.Fields(s), "") }

// exportedOnes is what other packages can call.
func (g gatingMacros) exportedOnes() gatingMacros {
	out := gatingMacros{}
	for name, m := range g {
		if m.exported {
			out[name] = m
		}
	}
	return out
}
