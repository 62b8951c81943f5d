package cuda

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gpubuild/buildenv/lazyregexp"
)

// Quote is a place in a header.
type Quote struct {
	Text  string `json:"text,omitempty"`  // the condition as the header writes it
	Error string `json:"error,omitempty"` // the text of its #error
	Line  int    `json:"line,omitempty"`
}

// Bounds are the host compilers that a toolkit's crt/host_config.h takes. A number that is 0 is no bound.
type Bounds struct {
	GCCMin   int    `json:"gcc_min,omitempty"` // oldest and newest major version
	GCCMax   int    `json:"gcc_max,omitempty"`
	ClangMin int    `json:"clang_min,omitempty"`
	ClangMax int    `json:"clang_max,omitempty"`
	MSCMin   int    `json:"msc_min,omitempty"` // oldest _MSC_VER
	MSCMax   int    `json:"msc_max,omitempty"` // the first _MSC_VER that is refused
	GCC      Quote  `json:"gcc"`
	Clang    Quote  `json:"clang"`
	MSC      Quote  `json:"msc"`
	File     string `json:"file,omitempty"` // the header
}

// Fits reports whether a compiler of a kind (gcc, clang, msvc) and major version (for msvc: _MSC_VER) is taken, and if not, what is: "gcc
// up to 16 only", with the header's own line.
func (b Bounds) Fits(kind string, major int) (bool, string) {
	lo, hi, q, name := b.GCCMin, b.GCCMax, b.GCC, "gcc"
	switch kind {
	case "clang":
		lo, hi, q, name = b.ClangMin, b.ClangMax, b.Clang, "clang"
	case "msvc":
		lo, hi, q, name = b.MSCMin, b.MSCMax-1, b.MSC, "_MSC_VER"
	}
	limit := ""
	switch {
	case hi > 0 && major > hi:
		limit = fmt.Sprintf("%s up to %d", name, hi)
	case lo > 0 && major < lo:
		limit = fmt.Sprintf("%s from %d", name, lo)
	default:
		return true, ""
	}
	if b.File == "" { // known from releases.toml
		return false, limit + " only"
	}
	return false, fmt.Sprintf("%s only: `%s` in %s, line %d", limit, q.Text, b.File, q.Line)
}

// frame is one #if that is open.
type frame struct {
	cond, text string // the condition of the branch that we are in, bare and as written; empty after #else
	line       int
	off        bool // the branch can never be compiled: #if 0, or a check that the header itself switched off; or one around it
	other      bool // a block for another compiler than plain gcc, clang or cl; or one around it
}

var (
	rule      = lazyregexp.New(`\b(__GNUC__|__clang_major__|_MSC_VER)\s*(>=|>|<=|<)\s*(\d{1,6})`)
	noCheck   = lazyregexp.New(`^#\s*define\s+__NV_NO_HOST_COMPILER_CHECK\b\s*(\S*)`)
	directive = lazyregexp.New(`^#\s*([a-z]+)\s*(.*)$`)
	otherOne  = lazyregexp.New(
		`(^|[^!\s])\s*\bdefined\s*\(?\s*(__HORIZON__|__GRCO_CLANG_COMPILER__|__ICC|__ibmxl_vrm__|__PGIC__|` +
			`__APPLE__|__powerpc__|__INTEL_CLANG_COMPILER)\b|__GRCO_CLANG_COMPILER__\s*==`,
	)
	comment = lazyregexp.New(`(?s)"(?:\\.|[^"\\\n])*"?|//[^\n]*|/\*.*?(?:\*/|\z)`)
)

// Uncommented puts a blank in the place of each comment of C++; lines keep their numbers.
func Uncommented(source string) string {
	return comment.ReplaceAllStringFunc(source, func(m string) string {
		if m[0] == '"' {
			return m
		}
		return " " + strings.Repeat("\n", strings.Count(m, "\n"))
	})
}

// longest is how much of one line is read: no condition of a compiler's version is as long.
const longest = 4096

// ParseHostConfig reads the limits out of a crt/host_config.h. A limit counts only if its block holds an #error: people edit this header,
// and a condition that stops nothing is none. Blocks for other compilers (Grace and HOS clang, xlC) have other numbers and are left out.
// A limit written as the #else of its opposite is not understood.
func ParseHostConfig(data []byte) Bounds {
	var b Bounds
	var open []frame
	unchecked := false
	lines := strings.Split(Uncommented(string(data)), "\n")
	for n := 0; n < len(lines); n++ {
		number, line := n+1, strings.TrimSpace(lines[n])
		for strings.HasSuffix(line, `\`) && n+1 < len(lines) && len(line) < longest {
			n++
			line = strings.TrimSuffix(line, `\`) + " " + strings.TrimSpace(lines[n])
		}
		line = line[:min(len(line), longest)]
		if m := noCheck.FindStringSubmatch(line); m != nil {
			unchecked = unchecked || m[1] != "0" && (len(open) == 0 || !open[len(open)-1].off)
			continue
		}
		m := directive.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		word, cond := m[1], strings.TrimSpace(m[2])
		around := open
		switch word {
		case "error":
			b.note(open, cond)
			continue
		case "endif":
			open = open[:max(0, len(open)-1)]
			continue
		case "ifdef":
			cond = "defined(" + cond + ")"
		case "ifndef":
			cond = "!defined(" + cond + ")"
		case "elif", "else":
			around = open[:max(0, len(open)-1)]
		case "if":
		default:
			continue
		}
		f := frame{cond: cond, text: line, line: number, other: otherOne.MatchString(cond),
			off: cond == "0" || unchecked && strings.Contains(cond, "__NV_NO_HOST_COMPILER_CHECK")}
		if len(around) > 0 {
			f.off, f.other = f.off || around[len(around)-1].off, f.other || around[len(around)-1].other
		}
		open = append(around, f)
	}
	return b
}

// near is how many blocks around an #error are looked at: in NVIDIA's headers the limit stands in the innermost.
const near = 8

// note takes the limit from the innermost block with one around an #error.
func (b *Bounds) note(open []frame, text string) {
	if len(open) == 0 || open[len(open)-1].off || open[len(open)-1].other {
		return
	}
	for _, f := range slices.Backward(open[max(0, len(open)-near):]) {
		macro, lo, hi := limits(f.cond)
		q := Quote{Text: f.text, Error: text, Line: f.line}
		switch macro {
		case "__clang_major__":
			b.ClangMin, b.ClangMax, b.Clang = lo, max(hi-1, 0), q
		case "__GNUC__":
			b.GCCMin, b.GCCMax, b.GCC = lo, max(hi-1, 0), q
		case "_MSC_VER":
			b.MSCMin, b.MSCMax, b.MSC = lo, hi, q
		default:
			continue
		}
		return
	}
}

// limits reads a condition that refuses: the lowest number that is taken and the first that is refused above it. Of a condition on several
// compilers clang's counts before gcc's, whose macro clang defines, too.
func limits(cond string) (macro string, lo, hi int) {
	all := rule.FindAllStringSubmatch(cond, -1)
	for _, m := range all {
		if macro == "" || m[1] == "__clang_major__" {
			macro = m[1]
		}
	}
	for _, m := range all {
		n, err := strconv.Atoi(m[3])
		if err != nil || m[1] != macro {
			continue
		}
		switch m[2] {
		case ">=":
			hi = n
		case ">":
			hi = n + 1
		case "<":
			lo = n
		case "<=":
			lo = n + 1
		}
	}
	return macro, lo, hi
}
