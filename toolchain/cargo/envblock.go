package cargo

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/BurntSushi/toml"

	"gpubuild/buildenv/lazyregexp"
)

// The lines around what gpubuild writes into a config.toml of cargo's.
const (
	envBlockBegins = "# gpubuild env --write: begin (gpubuild env --remove takes this block out)"
	envBlockEnds   = "# gpubuild env --write: end"
)

var (
	envBlock = lazyregexp.New(`(?s)` + regexp.QuoteMeta(envBlockBegins) + `.*?` + regexp.QuoteMeta(envBlockEnds) + `\r?\n?`)
	envTable = lazyregexp.New(`(?m)^[ \t]*\[[ \t]*env[ \t]*\][^\n]*\n`)
)

// WithoutEnvBlock takes our block out of the text of a config.toml, and says whether there was one.
func WithoutEnvBlock(text string) (string, bool) {
	rest := envBlock.ReplaceAllString(text, "")
	return rest, rest != text
}

// WithEnvBlock puts an [env] table into the text of a config.toml, between two lines that mark it as ours, in place of an earlier one. In
// a file that has such a table already it becomes a part of that. A variable that the file sets itself is an error.
func WithEnvBlock(text, table string) (string, error) {
	text, _ = WithoutEnvBlock(text)
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	at := envTable.FindStringIndex(text)
	if at == nil {
		at = []int{len(text), len(text)}
	} else {
		table = strings.TrimPrefix(table, "[env]\n")
	}
	text = text[:at[1]] + envBlockBegins + "\n" + table + envBlockEnds + "\n" + text[at[1]:]
	var any map[string]any
	if _, err := toml.Decode(text, &any); err != nil {
		return "", fmt.Errorf("its own [env] table does not go with what gpubuild would write: %w", err)
	}
	return text, nil
}
