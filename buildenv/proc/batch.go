package proc

import (
	"errors"
	"path/filepath"
	"strings"
	"unicode"
)

var errBatch = errors.New("a line break in an argument would end the command line of cmd.exe")

// isBatch reports whether a program is a script of cmd.exe, which reads its command line by other rules than every program.
func isBatch(path string) bool {
	ext := filepath.Ext(strings.TrimRight(path, ". "))
	return strings.EqualFold(ext, ".bat") || strings.EqualFold(ext, ".cmd")
}

// batchLine is the command line of cmd.exe for a script: no argument can leave its quotes or expand a variable. It is that of Rust's std,
// make_bat_command_line in library/std/src/sys/args/windows.rs, except that line breaks are refused.
func batchLine(script string, args []string) (string, error) {
	if strings.ContainsAny(script, "\"\r\n\x00") || strings.HasSuffix(script, `\`) {
		return "", errBatch
	}
	var b strings.Builder
	b.WriteString(`cmd.exe /e:ON /v:OFF /d /c ""` + script + `"`)
	for _, arg := range args {
		if strings.ContainsAny(arg, "\r\n\x00") {
			return "", errBatch
		}
		b.WriteByte(' ')
		quote := arg == "" || strings.HasSuffix(arg, `\`) || strings.ContainsFunc(arg, func(r rune) bool {
			return r < 0x80 && !strings.ContainsRune(`#$*+-./:?@\_`, r) && !isAlphanumeric(r) || unicode.IsControl(r)
		})
		if quote {
			b.WriteByte('"')
		}
		backslashes := 0
		for _, r := range arg {
			switch r {
			case '\\':
				backslashes++
			case '"': // doubled, and the backslashes before it, too
				b.WriteString(strings.Repeat(`\`, backslashes) + `"`)
				backslashes = 0
			case '%': // %cd:~,% is nothing, and keeps cmd.exe from expanding %NAME%
				b.WriteString(`%%cd:~,`)
				backslashes = 0
			default:
				backslashes = 0
			}
			b.WriteRune(r)
		}
		if quote {
			b.WriteString(strings.Repeat(`\`, backslashes) + `"`)
		}
	}
	return b.String() + `"`, nil
}

func isAlphanumeric(r rune) bool {
	return r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
}
