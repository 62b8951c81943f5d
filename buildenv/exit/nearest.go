package exit

import (
	"strings"

	"github.com/xrash/smetrics"
)

// Nearest is the known word that was most likely meant by a misspelled one; empty if none is close.
func Nearest(word string, known []string) string {
	if len(word) > 64 { // no word of ours is that long, and the comparison takes time that grows with the length
		return ""
	}
	best, bestAt := "", min(3, len(strings.TrimLeft(word, "-"))/2)+1
	for _, k := range known {
		if d := smetrics.WagnerFischer(word, k, 1, 1, 1); d < bestAt || d == bestAt && best != "" && k < best {
			best, bestAt = k, d
		}
	}
	return best
}
