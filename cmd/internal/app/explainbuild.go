package app

import (
	"context"
	"io"
	"os"
	"strings"

	"gpubuild/buildenv/local"
	"gpubuild/toolchain/explain"
)

// buildWatch looks at what cargo says while it builds, so that a failure can be explained.
//
// Cargo draws its progress bar and colours only when its stderr is a terminal; there it keeps the real one, and we see no more than the JSON
// messages that the user asked for. Everywhere else (a file, a pipe, CI) its stderr goes through us, byte for byte.
type buildWatch struct {
	*explain.Watcher
	stderr io.Writer // what cargo gets
	sees   bool      // cargo's stderr passes through
}

// watchBuild never keeps a build from running: without usable rules nothing is explained.
func (j *journey) watchBuild() *buildWatch {
	w := &buildWatch{stderr: j.shell.Err}
	rules, err := explain.Default()
	if err != nil {
		j.shell.Detail("failures will not be explained: %v", err)
		return w
	}
	w.Watcher = explain.NewWatcher(rules)
	if f, ok := j.shell.Err.(*os.File); !ok || !local.Terminal(f) {
		w.sees = true
		w.stderr = io.MultiWriter(j.shell.Err, w.Watcher)
	}
	return w
}

// message looks at a JSON message that the user asked for; a linker's complaint stands in one.
func (w *buildWatch) message(raw []byte) {
	if w.Watcher != nil {
		_, _ = w.Write(append(raw[:len(raw):len(raw)], '\n'))
	}
}

// explain says after cargo's own words what a failed build's cause is, if it is known. What is unknown needs no words: cargo said it.
func (j *journey) explain(ctx context.Context, w *buildWatch) {
	if w.Watcher == nil {
		return
	}
	answer := w.Answer()
	if !answer.Known() {
		if !w.sees {
			j.shell.Note("on a terminal gpubuild does not read along; to look for a known cause, add 2>&1 | gpubuild explain")
		}
		return
	}
	f := answer.Found[0]
	words := j.situation(ctx, answer.Found[:1]).words(f)
	j.shell.Loud("Explaining", "%s", f.Text)
	j.shell.Loud("", "%s [%s]", words.Cause, f.ID)
	if len(words.Here) > 0 {
		j.shell.Loud("", "here: %s", strings.Join(words.Here, "; "))
	}
	if len(f.Source) > 0 {
		j.shell.Detail("source: %s", strings.Join(f.Source, "\n"+strings.Repeat(" ", 13)+"source: "))
	}
	for _, more := range answer.Found[1:] {
		if more.Kind == explain.Cause {
			j.shell.Loud("", "also possible: %s (gpubuild explain %s)", more.Text, more.ID)
		}
	}
	fix := words.Fix
	if words.Command != "" {
		fix += "\n      " + words.Command
	}
	j.shell.Hint(fix)
}
