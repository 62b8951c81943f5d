package cuda

import (
	"fmt"
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

// Fits says whether a compiler of a kind (gcc, clang, msvc) and major version (for msvc: _MSC_VER) is taken, and if not, what is: "gcc up
// to 16 only", with the header's own line.
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
	if b.File == PublishedBy {
		return false, fmt.Sprintf("%s only, by %s", limit, b.File)
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

// below fills in what the blocks around it say.
func (f frame) below(open []frame) frame {
	f.other = otherOne.MatchString(f.cond)
	if n := len(open); n > 0 {
		f.off, f.other = f.off || open[n-1].off, f.other || open[n-1].other
	}
	return f
}

var (
	gccRule   = lazyregexp.New(`\b__GNUC__\s*(>=|>|<=|<)\s*(\d{1,6})`)
	clangRule = lazyregexp.New(`\b__clang_major__\s*(>=|>|<=|<)\s*(\d{1,6})`)
	mscRule   = lazyregexp.New(`\b_MSC_VER\s*(>=|>|<=|<)\s*(\d{1,6})`)
	noCheck   = lazyregexp.New(`^#\s*define\s+__NV_NO_HOST_COMPILER_CHECK\b\s*(\S*)`)
	directive = lazyregexp.New(`^#\s*([a-z]+)\s*(.*)$`)
	otherOne  = lazyregexp.New(
		`(^|[^!\s])\s*\bdefined\s*\(?\s*(__HORIZON__|__GRCO_CLANG_COMPILER__|__ICC|__ibmxl_vrm__|__PGIC__|` +
			`__APPLE__|__powerpc__|__INTEL_CLANG_COMPILER)\b`,
	)
)

// ParseHostConfig reads the limits out of a crt/host_config.h. A limit counts only if its block holds an #error: people edit this header,
// and a condition that stops nothing is none. Blocks for other compilers (Grace and HOS clang, xlC) have other numbers and are left out.
// A limit written as the #else of its opposite is not understood.
func ParseHostConfig(data []byte) Bounds {
	var b Bounds
	var open []frame
	unchecked := false
	for n, line := range logicalLines(string(data)) {
		if line == "" || line[0] != '#' {
			continue
		}
		if m := noCheck.FindStringSubmatch(line[:min(len(line), longest)]); m != nil {
			unchecked = unchecked || m[1] != "0" && live(open)
			continue
		}
		m := directive.FindStringSubmatch(line[:min(len(line), longest)])
		if m == nil {
			continue
		}
		switch word, rest := m[1], strings.TrimSpace(m[2]); word {
		case "if", "ifdef", "ifndef":
			cond := rest
			if word != "if" {
				cond = "defined(" + rest + ")"
			}
			if word == "ifndef" {
				cond = "!" + cond
			}
			off := cond == "0" || unchecked && strings.Contains(cond, "__NV_NO_HOST_COMPILER_CHECK")
			open = append(open, frame{cond: cond, text: line[:min(len(line), longest)], line: n + 1, off: off}.below(open))
		case "elif", "else":
			if top := len(open) - 1; top >= 0 {
				next := frame{
					cond: rest,
					text: line[:min(len(line), longest)],
					line: n + 1,
					off:  word == "elif" && rest == "0",
				}
				open[top] = next.below(open[:top])
			}
		case "endif":
			open = open[:max(0, len(open)-1)]
		case "error":
			b.note(open, strings.TrimSpace(rest))
		}
	}
	return b
}

// longest is how much of one line is read: no condition of a compiler's version is as long.
const longest = 4096

func live(open []frame) bool { return len(open) == 0 || !open[len(open)-1].off }

// near is how many blocks around an #error are looked at: in NVIDIA's headers the limit stands in the innermost.
const near = 8

// note takes the limit from the innermost block with one around an #error.
func (b *Bounds) note(open []frame, text string) {
	if len(open) == 0 || open[len(open)-1].off || open[len(open)-1].other {
		return
	}
	for i := len(open) - 1; i >= max(0, len(open)-near); i-- {
		f := open[i]
		q := Quote{Text: f.text, Error: text, Line: f.line}
		switch {
		case clangRule.MatchString(f.cond):
			if strings.Contains(f.cond, "__GRCO_CLANG_COMPILER__") {
				return
			}
			lo, hi := limits(clangRule, f.cond)
			b.ClangMin, b.ClangMax, b.Clang = lo, max(hi-1, 0), q
			return
		case gccRule.MatchString(f.cond):
			lo, hi := limits(gccRule, f.cond)
			b.GCCMin, b.GCCMax, b.GCC = lo, max(hi-1, 0), q
			return
		case mscRule.MatchString(f.cond):
			b.MSCMin, b.MSCMax = limits(mscRule, f.cond)
			b.MSC = q
			return
		}
	}
}

// limits reads a condition that refuses: the lowest number that is taken and the first that is refused above it.
func limits(rule *lazyregexp.Regexp, cond string) (lo, hi int) {
	for _, m := range rule.FindAllStringSubmatch(cond, -1) {
		n, err := strconv.Atoi(m[2])
		if err != nil {
			continue
		}
		switch m[1] {
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
	return lo, hi
}

// logicalLines takes comments out and joins lines that end with a backslash; a line keeps its number, and those joined to it are empty.
func logicalLines(s string) []string {
	var out []string
	var line strings.Builder
	comment, joined := false, 0 // lines that were joined to the one being built
	for _, raw := range strings.Split(s, "\n") {
		raw = strings.TrimRight(raw, " \t\r")
	chars:
		for i := 0; i < len(raw); i++ {
			next := raw[i:min(i+2, len(raw))]
			switch {
			case comment:
				if next == "*/" {
					comment = false
					i++
				}
			case next == "/*":
				line.WriteByte(' ') // a comment counts as a blank
				comment = true
				i++
			case next == "//":
				break chars
			case raw[i] == '\\' && i == len(raw)-1:
			default:
				line.WriteByte(raw[i])
			}
		}
		if strings.HasSuffix(raw, `\`) {
			line.WriteByte(' ')
			joined++
			continue
		}
		out = append(out, strings.TrimSpace(line.String()))
		for ; joined > 0; joined-- {
			out = append(out, "")
		}
		line.Reset()
	}
	return out
}
