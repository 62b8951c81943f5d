package console

import "strings"

// signs colour a line of an answer for people by what it begins with.
var signs = []struct{ sign, colour string }{
	{"✓ ", green}, {"✗ ", red}, {"⚠ ", yellow}, {"? ", yellow}, {"  on ", green}, {"  off ", red},
	{"  warning: ", yellow}, {"  note: ", cyan},
}

// painted colours the signs and the headings of an answer for people.
func painted(text string) string {
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		for _, s := range signs {
			if rest, ok := strings.CutPrefix(l, s.sign); ok {
				lines[i] = s.colour + strings.TrimRight(s.sign, " ") + reset + s.sign[len(strings.TrimRight(s.sign, " ")):] + rest
			}
		}
		if strings.HasSuffix(l, ":") && l[0] >= 'A' && l[0] <= 'Z' { // a heading, as cargo's help has them
			lines[i] = green + l + reset
		}
	}
	return strings.Join(lines, "\n")
}

// tilde shows the user's home directory as ~, where a path begins with it.
func tilde(text, home string) string {
	if len(home) < 2 || !strings.Contains(text, home) {
		return text
	}
	var b strings.Builder
	for {
		i := strings.Index(text, home)
		if i < 0 {
			return b.String() + text
		}
		after := text[i+len(home):]
		begins := i == 0 || strings.ContainsRune(" \t\n(\"'`=", rune(text[i-1]))
		b.WriteString(text[:i])
		if begins && (after == "" || strings.ContainsRune("/\\ ,:;)\"'`\n", rune(after[0]))) {
			b.WriteByte('~')
		} else {
			b.WriteString(home)
		}
		text = after
	}
}
