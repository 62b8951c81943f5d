package cargo

import (
	"fmt"

	"gpubuild/buildenv"
)

// OnTerminal makes cargo draw on a pipe what it would draw on a terminal of this width: its bar,
// and its colours where colour says that the terminal has them. What the user has settled stays.
// The settings go on the command line, so that no cargo below a build script inherits them.
func (l Line) OnTerminal(h buildenv.Host, t Tool, width int, colour bool) Line {
	config := readConfig(h, t, l)
	if set, _ := config.find("term", "color"); colour && l.Color == "" && (set == nil || set == "auto") {
		l = l.WithConfig(`term.color="always"`)
	}
	// cargo's own conditions for a bar on a terminal, which "always" leaves out. Source: cargo 1.95, src/cargo/util/progress.rs.
	_, ci := t.Env.Lookup("CI")
	_, azure := t.Env.Lookup("TF_BUILD")
	if l.Has("--quiet") || t.Env.Get("CARGO_TERM_QUIET") == "true" || t.Env.Get("TERM") == "dumb" || ci || azure {
		return l
	}
	if !config.has("term", "progress", "when") && !config.has("term", "progress", "width") {
		l = l.WithConfig(`term.progress.when="always"`, fmt.Sprintf("term.progress.width=%d", width))
	}
	return l
}
