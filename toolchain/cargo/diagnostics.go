package cargo

import (
	"bytes"
	"regexp"
	"strconv"
	"strings"
)

// Diagnostic is an error of rustc as cargo prints it.
type Diagnostic struct {
	Message string // "error[E0308]: mismatched types"
	Path    string // as rustc writes it: relative to the workspace's root, or absolute
	Line    int
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
}

const maxDiagnosticLine = 4096

var (
	colour       = regexp.MustCompile("\x1b\\[[0-9;]*[A-Za-z]")
	errorLine    = regexp.MustCompile(`^error(\[[A-Z]\d+\])?: \S`)
	locationLine = regexp.MustCompile(`^\s*--> (.+):(\d+):\d+$`)
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
	if len(d.Found) == maxDiagnostics {
		return
	}
	line := d.line
	if i := bytes.LastIndexByte(bytes.TrimRight(line, "\r"), '\r'); i >= 0 {
		line = line[i+1:] // what a progress bar wrote before it
	}
	text := strings.TrimRight(colour.ReplaceAllString(string(line), ""), "\r ")
	if errorLine.MatchString(text) {
		d.message = text
		return
	}
	if m := locationLine.FindStringSubmatch(text); m != nil && d.message != "" {
		if n, err := strconv.Atoi(m[2]); err == nil {
			d.Found = append(d.Found, Diagnostic{d.message, m[1], n})
		}
	}
	d.message = "" // the place stands right below, or the error has none
}
