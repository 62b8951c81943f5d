package console

import (
	"regexp"
	"strings"
)

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
	paths := regexp.MustCompile("(^|[ \t\n(\"'`=])" + regexp.QuoteMeta(home) + "($|[/\\\\ ,:;)\"'`\n])")
	once := paths.ReplaceAllString(text, "$1~$2")
	return paths.ReplaceAllString(once, "$1~$2") // two paths may share the space between them
}
