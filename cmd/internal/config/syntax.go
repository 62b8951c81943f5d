package config

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/BurntSushi/toml"

	"gpubuild/buildenv/lazyregexp"
)

var notTab = lazyregexp.New(`[^\t]`)

// place is where a TOML text is wrong, in the reader's words and with the line and a caret below the place. ParseError.ErrorWithPosition of
// BurntSushi/toml v1.6 is not called: it panics on a file with CRLF and an unterminated string. Its offsets are right where lines end with
// a single byte.
func place(data []byte, wrong toml.ParseError) (line int, message, excerpt string) {
	text := string(data)
	if strings.Contains(text, "\r\n") {
		text = strings.ReplaceAll(text, "\r\n", "\n")
		_, again := toml.Decode(text, &map[string]any{})
		errors.As(again, &wrong)
	}
	start := min(max(wrong.Position.Start, 0), len(text))
	begin := strings.LastIndexByte(text[:start], '\n') + 1
	shown, _, _ := strings.Cut(text[begin:], "\n")
	shown = strings.ToValidUTF8(shown[:min(len(shown), 200)], "\uFFFD")
	line = strings.Count(text[:start], "\n") + 1
	if shown != "" {
		n := strconv.Itoa(line)
		gap := strings.Repeat(" ", len(n))
		// tabs are kept, so that the caret is below its character
		caret := notTab.ReplaceAllString(shown[:min(start-begin, len(shown))], " ") + "^"
		excerpt = fmt.Sprintf("%s |\n%s | %s\n%s | %s", gap, n, shown, gap, caret)
	}
	return line, cmp.Or(wrong.Message, strings.TrimPrefix(wrong.Error(), "toml: ")), excerpt
}
