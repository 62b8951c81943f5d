package cargo

import (
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

	message string
	open    bool // the lines that show the place of the last one follow
}

var (
	colour       = lazyregexp.New("\x1b\\[[0-9;]*[A-Za-z]")
	errorLine    = lazyregexp.New(`^error(?:\[([A-Z]\d+)\])?: \S`)
	locationLine = lazyregexp.New(`^\s*--> (.+):(\d+):(\d+)$`)
	// carets are under what an error is about; hyphens are under what else it names
	caretLine = lazyregexp.New(`^\s*\|[ \-]*?(\^+)(?: (.*))?$`)
)

// Line reads one line.
func (d *Diagnostics) Line(line []byte) {
	text := strings.TrimRight(colour.ReplaceAllString(string(line), ""), "\r\n ")
	text = text[strings.LastIndexByte(text, '\r')+1:] // before it stands what a progress bar wrote
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
