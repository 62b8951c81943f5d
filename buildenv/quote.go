package buildenv

import (
	"fmt"
	"strings"

	"gpubuild/buildenv/lazyregexp"
)

// Words joins words as the shells of a system read them back. Plain words are not quoted; on Windows the others stand between double
// quotes, which cmd, PowerShell and programs take.
func Words(os string, words ...string) string {
	plain, quote := "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=+,./:@%", PosixQuote
	if os == Windows {
		plain, quote = plain+`\`, windowsQuote
	}
	out := make([]string, len(words))
	for i, w := range words {
		if w == "" || strings.Trim(w, plain) != "" {
			w = quote(w)
		}
		out[i] = w
	}
	return strings.Join(out, " ")
}

// PosixWords joins words for a POSIX shell, whatever the system.
func PosixWords(words ...string) string { return Words(Linux, words...) }

var beforeQuote = lazyregexp.New(`(\\*)"`)

// windowsQuote escapes quotes, and backslashes before one ("Parsing C command-line arguments", Microsoft).
func windowsQuote(s string) string {
	s = beforeQuote.ReplaceAllString(s, `$1$1\"`)
	return `"` + s + s[len(strings.TrimRight(s, `\`)):] + `"`
}

// HowToSet is the command that sets a variable in the user's shell; of Windows' two, which do not take each other's, it is both.
func HowToSet(os, name, value string) string {
	if os != Windows {
		return "`export " + name + "=" + PosixWords(value) + "`"
	}
	value = strings.ReplaceAll(value, "/", `\`)
	return fmt.Sprintf("`$env:%s = %s` (cmd: `set %[1]s=%[3]s`)", name, pwshQuote(value), value)
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
