package source

import (
	"slices"
	"strings"
)

// Build is what a condition is judged with: the features that are on in the package, and the target's operating system as Rust calls it.
// Features that are nil, or an empty name, are not known.
type Build struct {
	Features []string
	OS       string
	Choices  bool // cfg! counts, too: what it chooses is missed where it is off, but is no reason for a feature that enables nothing
}

// OSOf is the operating system of a target triple; for an empty one that of the host. Others than the usual ones are not known.
func OSOf(triple, host string) string {
	switch {
	case triple == "" && host == "darwin" || strings.Contains(triple, "-apple-darwin"):
		return "macos"
	case triple == "" && (host == "linux" || host == "windows"):
		return host
	case strings.Contains(triple, "-windows-"):
		return "windows"
	case strings.Contains(triple, "-linux-") && !strings.Contains(triple, "android"):
		return "linux"
	}
	return ""
}

// truth is whether a condition holds.
type truth int

const (
	no truth = iota
	yes
	open // not known
)

func is(b bool) truth {
	if b {
		return yes
	}
	return no
}

// conditional is the condition in which a test of a feature stands.
type conditional struct {
	kind      string // "cfg", "cfg!", "cfg_attr", or "" for something else, such as cfg_select!
	from, end int    // of what its parentheses hold
	doc       bool   // doc(cfg(…))
}

// conditionAt finds the condition around a place in Rust text of which strings are blanks.
func conditionAt(text string, at int) conditional {
	depth := 0
	for i := at - 1; i >= 0 && at-i < 4000; i-- {
		switch text[i] {
		case ')', ']', '}':
			depth++
			continue
		case '(', '[', '{':
			if depth--; depth >= 0 {
				continue
			}
			depth = 0
		default:
			continue
		}
		head := strings.TrimRight(text[:i], " \t\r\n")
		start := len(head)
		for start > 0 && (wordByte(head[start-1]) || head[start-1] == '!') {
			start--
		}
		switch name := head[start:]; name {
		case "all", "any", "not":
		case "cfg", "cfg!", "cfg_attr":
			end, open := i+1, 1
			for ; end < len(text) && open > 0; end++ {
				switch text[end] {
				case '(':
					open++
				case ')':
					open--
				}
			}
			return conditional{name, i + 1, max(end-1, i+1), strings.HasSuffix(strings.TrimRight(head[:start], " \t\r\n"), "doc(")}
		default:
			return conditional{}
		}
	}
	return conditional{}
}

// condition reads one condition. Names are taken from text, values from whole, which has them at the same places.
type condition struct {
	text, whole string
	feature     string
	on          bool
	build       Build
}

// holds answers the condition at a place and the place behind it.
func (c *condition) holds(at int) (truth, int) {
	at = c.space(at)
	start := at
	for at < len(c.text) && wordByte(c.text[at]) {
		at++
	}
	name := c.text[start:at]
	at = c.space(at)
	switch {
	case at < len(c.text) && c.text[at] == '(' && slices.Contains([]string{"all", "any", "not"}, name):
		var parts []truth
		for at = c.space(at + 1); at < len(c.text) && c.text[at] != ')'; at = c.space(at) {
			from := at
			var t truth
			if t, at = c.holds(at); at == from {
				return open, len(c.text) // it is no condition
			}
			parts = append(parts, t)
			if at = c.space(at); at < len(c.text) && c.text[at] == ',' {
				at++
			}
		}
		return combined(name, parts), at + 1
	case at < len(c.text) && c.text[at] == '=':
		from := strings.IndexByte(c.text[at:], '"')
		if from < 0 {
			return open, len(c.text)
		}
		from += at + 1
		end := strings.IndexByte(c.text[from:], '"')
		if end < 0 {
			return open, len(c.text)
		}
		return c.equal(name, c.whole[from:from+end]), from + end + 1
	}
	return c.named(name), at
}

func (c *condition) space(at int) int {
	for at < len(c.text) && strings.IndexByte(" \t\r\n", c.text[at]) >= 0 {
		at++
	}
	return at
}

func combined(name string, parts []truth) truth {
	switch {
	case name == "not" && len(parts) == 1 && parts[0] != open:
		return yes - parts[0]
	case name == "all" && slices.Contains(parts, no):
		return no
	case name == "any" && slices.Contains(parts, yes):
		return yes
	case name == "not" || slices.Contains(parts, open):
		return open
	}
	return is(name == "all")
}

func (c *condition) equal(name, value string) truth {
	switch {
	case name == "feature" && value == c.feature:
		return is(c.on)
	case name == "feature" && c.build.Features != nil:
		return is(slices.Contains(c.build.Features, value))
	case name == "target_os" && c.build.OS != "":
		return is(value == c.build.OS)
	case name == "target_family" && c.build.OS != "":
		return is(value == "windows" == (c.build.OS == "windows") && (value == "windows" || value == "unix"))
	}
	return open
}

func (c *condition) named(name string) truth {
	switch {
	case name == "test": // tests are no part of what is searched
		return no
	case (name == "unix" || name == "windows") && c.build.OS != "":
		return is((name == "windows") == (c.build.OS == "windows"))
	}
	return open
}
