package buildenv

import (
	"fmt"
	"strings"
)

// PosixWords joins words so that a POSIX shell reads back the same ones. Plain words are not quoted.
func PosixWords(words ...string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=+,./:@%"
	out := make([]string, len(words))
	for i, w := range words {
		if w == "" || strings.Trim(w, plain) != "" {
			w = PosixQuote(w)
		}
		out[i] = w
	}
	return strings.Join(out, " ")
}

// PosixQuote puts text between single quotes, where nothing is special, not even a newline.
func PosixQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// fishQuote puts text between single quotes, where fish escapes only \ and '.
func fishQuote(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(s) + "'"
}

// pwshQuote puts text between single quotes, where PowerShell doubles the quotes themselves: ' and the typographic ones U+2018 to U+201B
// ("about_Quoting_Rules"; CharTraits.IsSingleQuote in PowerShell's tokenizer).
func pwshQuote(s string) string {
	return "'" + strings.NewReplacer("'", "''", "‘", "‘‘", "’", "’’", "‚", "‚‚", "‛", "‛‛").Replace(s) + "'"
}

// TOMLString is a basic string of TOML 1.0.
func TOMLString(s string) string { return escaped(`\u%04X`, s) }

// escaped puts text between double quotes, with backslashes before those in it, and control characters in a form of their own.
func escaped(control, s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < ' ' || r == 0x7f:
			fmt.Fprintf(&b, control, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
