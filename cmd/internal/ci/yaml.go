package ci

import (
	"strconv"
	"strings"
	"unicode"
)

// quote writes a string as a double-quoted YAML scalar on one line: all escapes of Go are YAML's, too (YAML 1.2.2, 5.7). Invalid UTF-8
// becomes U+FFFD.
func quote(s string) string { return strconv.Quote(strings.ToValidUTF8(s, "\uFFFD")) }

// block writes text as a literal block scalar below a key, indented by n, or quoted where a block could not hold it as it is.
func block(s string, n int) string {
	plain := s != "" && !strings.HasPrefix(s, " ") && !strings.HasPrefix(s, "\n") && !strings.HasSuffix(s, "\n")
	for _, r := range s {
		plain = plain && (r == '\n' || r == '\t' || r >= 0x20 && r <= 0x7e || r >= 0xa0 && r <= 0xd7ff && unicode.IsPrint(r))
	}
	if !plain || strings.Contains(s, "\n\t") || strings.HasPrefix(s, "\t") {
		return " " + quote(s)
	}
	indent := "\n" + strings.Repeat(" ", n)
	return " |-" + indent + strings.ReplaceAll(strings.ReplaceAll(s, "\n", indent), indent+"\n", "\n\n")
}

// list writes strings as a flow sequence of quoted scalars.
func list(words []string) string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = quote(w)
	}
	return "[" + strings.Join(out, ", ") + "]"
}
