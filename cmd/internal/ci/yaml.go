package ci

import (
	"fmt"
	"strings"
	"unicode"
)

// quote writes a string as a double-quoted YAML scalar on one line, which every YAML 1.1 and 1.2 reader reads back to the same string,
// whatever it holds. Invalid UTF-8 cannot be said in YAML: its bytes become U+FFFD. Source: YAML 1.2.2, sections 5.1 (printable
// characters), 5.7 (escapes), 7.3.1.
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"', r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\r':
			b.WriteString(`\r`)
		case r < 0x20, r == 0x7f:
			fmt.Fprintf(&b, `\x%02x`, r)
		case r <= 0x7e, r <= 0xffff && unicode.IsPrint(r) && r != 0xfeff:
			b.WriteRune(r)
		case r <= 0xffff:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			fmt.Fprintf(&b, `\U%08x`, r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

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
