package verify

import (
	"bytes"
	"strings"

	"gpubuild/buildenv/lazyregexp"
)

// fallback finds words in which programs say that they go on without the GPU. Many an honest program writes them, too (a reference product,
// the name of a test): they are shown as a note, and decide nothing.
var fallback = lazyregexp.New(`(?i)\b(fall(s|ing)?|fell|revert(s|ing)?|switch(es|ing)?|default(s|ing)?) ?back\W+(to|on)\W+(the )?cpu\b|` +
	`\bfall(s|ing)?[ -]?back\W+to\W+cpu\b|\bcpu fallback\b|` +
	`\b(us(es|ing)|runs?|running|comput(es|ing)|execut(es|ing)) (on |with )?(the )?cpu\b|` +
	`\bno (usable |available |compatible |cuda[ -](capable )?)*(gpu|cuda|device)s?( device)?s? (was |were )?(found|detected|available)\b|` +
	`\b(cuda|gpu) (is |was )?(not available|unavailable|disabled)\b|\boffloaded 0/\d+ layers\b`)

// LineAboutCPU returns the first line in which a program says that it goes on without the GPU, shortened, or nothing.
func LineAboutCPU(output []byte) string {
	for line := range bytes.Lines(output) {
		cargo := bytes.HasPrefix(bytes.TrimSpace(line), []byte("Running `")) // its line with the program's arguments
		if !cargo && fallback.Match(line) {
			said := strings.TrimSpace(strings.ToValidUTF8(string(line), "?"))
			return strings.ToValidUTF8(said[:min(len(said), 160)], "") // not half a letter
		}
	}
	return ""
}
