package edit

import (
	"bytes"

	"github.com/rogpeppe/go-internal/diff"
)

// Diff is the unified diff of two texts, as git and patch read it; empty when they are the same.
func Diff(path string, old, now []byte) string {
	_, text, _ := bytes.Cut(diff.Diff("a/"+path, old, "b/"+path, now), []byte("\n")) // the first line repeats the names
	return string(text)
}
