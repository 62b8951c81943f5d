package exit

import (
	"strings"

	"github.com/xrash/smetrics"
)

// Unknown is the error for a word that is none of those that are known: it names the one that was most likely meant, or says the fix.
func Unknown(what, word string, known []string, fix string) error {
	if near := Nearest(word, known); near != "" {
		return Usagef("", "unknown %s `%s`; did you mean `%s`?", what, word, near)
	}
	return Usagef(fix, "unknown %s `%s`", what, word)
}

// Nearest is the known word that was most likely meant by a misspelled one; empty if none is close.
func Nearest(word string, known []string) string {
	if len(word) > 64 { // no word of ours is that long, and the comparison takes time that grows with the length
		return ""
	}
	best, bestAt := "", min(3, len(strings.TrimPrefix(strings.TrimLeft(word, "-"), "gpu-"))/2)+1
	for _, k := range known {
		if k == "--gpu-"+strings.TrimPrefix(word, "--") { // prove has --gpu-device, since --device is what programs have
			return k
		}
		if d := smetrics.WagnerFischer(word, k, 1, 1, 1); d < bestAt || d == bestAt && best != "" && k < best {
			best, bestAt = k, d
		}
	}
	return best
}
