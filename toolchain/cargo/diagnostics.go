package cargo

import (
	"bytes"
	"strconv"
	"strings"

	"gpubuild/buildenv/lazyregexp"
)

// Diagnostic is an error of rustc as cargo prints it.
type Diagnostic struct {
	Message string // "error[E0308]: mismatched types"
	Code    string // E0308; empty: it has none
	Path    string // as rustc writes it: relative to the workspace's root, or absolute
	Line    int
	Column  int
	Width   int    // of what rustc underlines on that line; 0: not known, or it goes on
	Label   string // rustc's label
}

// maxDiagnostics bounds what is kept: after the first errors the rest mostly follows from them.
const maxDiagnostics = 10

// Diagnostics reads errors off cargo's human-readable stderr as it passes. Only an error with a place counts: "could not compile" and the
// like have none. Source: rustc's default output, `error[E0308]: mismatched types` and on the next line ` --> src/main.rs:3:5` (The rustc
// book, JSON output, "rendered").
type Diagnostics struct {
	Found []Diagnostic

	line    []byte
	skip    bool // of a line that is too long the rest
	message string
	open    bool // the lines that show the place of the last one follow
}

const maxDiagnosticLine = 4096

var (
	colour       = lazyregexp.New("\x1b\\[[0-9;]*[A-Za-z]")
	errorLine    = lazyregexp.New(`^error(?:\[([A-Z]\d+)\])?: \S`)
	locationLine = lazyregexp.New(`^\s*--> (.+):(\d+):(\d+)$`)
	// carets are under what an error is about; hyphens are under what else it names
	caretLine = lazyregexp.New(`^\s*\|[ \-]*?(\^+)(?: (.*))?$`)
)

// Write never fails.
func (d *Diagnostics) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		end := bytes.IndexByte(p, '\n')
		part := p
		if end >= 0 {
			part = p[:end]
		}
		if room := maxDiagnosticLine - len(d.line); len(part) > room {
			part, d.skip = part[:room], true
		}
		d.line = append(d.line, part...)
		if end < 0 {
			break
		}
		if !d.skip {
			d.read()
		}
		d.line, d.skip, p = d.line[:0], false, p[end+1:]
	}
	return n, nil
}

func (d *Diagnostics) read() {
	line := d.line
	if i := bytes.LastIndexByte(bytes.TrimRight(line, "\r"), '\r'); i >= 0 {
		line = line[i+1:] // what a progress bar wrote before it
	}
	text := strings.TrimRight(colour.ReplaceAllString(string(line), ""), "\r ")
	if d.open {
		last := &d.Found[len(d.Found)-1]
		if m := caretLine.FindStringSubmatch(text); m != nil {
			last.Width, last.Label, d.open = len(m[1]), m[2], false
			return
		}
		d.open = text != "" && strings.Contains(text, "|")
	}
	if errorLine.MatchString(text) {
		d.message = text
		return
	}
	if m := locationLine.FindStringSubmatch(text); m != nil && d.message != "" && len(d.Found) < maxDiagnostics {
		line, err := strconv.Atoi(m[2])
		column, wrong := strconv.Atoi(m[3])
		if err == nil && wrong == nil {
			code := errorLine.FindStringSubmatch(d.message)[1]
			d.Found = append(d.Found, Diagnostic{Message: d.message, Code: code, Path: m[1], Line: line, Column: column})
			d.open = true
		}
	}
	d.message = "" // the place is on the next line, or the error has none
}
