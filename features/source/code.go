package source

import (
	"strings"

	"gpubuild/buildenv/lazyregexp"
)

// code answers Rust text of which comments, the bodies of string and character literals and modules under #[cfg(test)] are blanks, so that
// only what is compiled into a program is searched. A literal that is one of the words given keeps its body. Lines stay where they are.
// Source: The Rust Reference, "Comments", "Literals" (raw and byte strings, nested block comments, lifetimes).
func code(text string, keep ...string) string {
	b := []byte(text)
	blank := func(from, to int) {
		for i := from; i < to && i < len(b); i++ {
			if b[i] != '\n' {
				b[i] = ' '
			}
		}
	}
	for i := 0; i < len(text); {
		switch c := text[i]; {
		case strings.HasPrefix(text[i:], "//"):
			end := strings.IndexByte(text[i:], '\n')
			if end < 0 {
				end = len(text) - i
			}
			blank(i, i+end)
			i += end
		case strings.HasPrefix(text[i:], "/*"):
			end := blockEnd(text, i)
			blank(i, end)
			i = end
		case c == '"':
			end := stringEnd(text, i+1)
			body(text, i+1, end, keep, blank)
			i = end + 1
		case (c == 'r') && (i == 0 || !wordByte(text[i-1]) || text[i-1] == 'b' || text[i-1] == 'c'):
			hashes := 0
			for i+1+hashes < len(text) && text[i+1+hashes] == '#' {
				hashes++
			}
			if open := i + 1 + hashes; open < len(text) && text[open] == '"' {
				end := len(text)
				if at := strings.Index(text[open+1:], `"`+strings.Repeat("#", hashes)); at >= 0 {
					end = open + 1 + at
				}
				body(text, open+1, end, keep, blank)
				i = end + 1 + hashes
			} else {
				i++
			}
		case c == '\'':
			// 'x', '\n', '\u{1F600}', or a lifetime, which nothing closes.
			if i+1 < len(text) && text[i+1] == '\\' {
				end := strings.IndexByte(text[min(i+3, len(text)):], '\'')
				if end < 0 {
					return string(b)
				}
				blank(i+1, i+3+end)
				i += 3 + end + 1
			} else if end := strings.IndexByte(text[i+1:min(i+6, len(text))], '\''); end > 0 {
				blank(i+1, i+1+end)
				i += end + 2
			} else {
				i++
			}
		default:
			i++
		}
	}
	return withoutTests(string(b))
}

func wordByte(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80
}

func body(text string, from, to int, keep []string, blank func(from, to int)) {
	for _, k := range keep {
		if to <= len(text) && text[from:to] == k {
			return
		}
	}
	blank(from, to)
}

// blockEnd is behind a block comment, which may hold others.
func blockEnd(text string, at int) int {
	depth := 0
	for i := at; i < len(text); i++ {
		switch {
		case strings.HasPrefix(text[i:], "/*"):
			depth++
			i++
		case strings.HasPrefix(text[i:], "*/"):
			if depth--; depth == 0 {
				return i + 2
			}
			i++
		}
	}
	return len(text)
}

// stringEnd is the position of a string literal's closing quote.
func stringEnd(text string, at int) int {
	for i := at; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i
		}
	}
	return len(text)
}

var testModule = lazyregexp.New(`#\[cfg\(test\)\]\s*(?:#\[[^\]]*\]\s*)*(?:pub(?:\([^)]*\))?\s+)?mod\s+\w+\s*\{`)

// withoutTests blanks the content of modules that only tests compile. Strings and comments are blanks already, so that braces count.
func withoutTests(text string) string {
	b := []byte(text)
	for _, at := range testModule.FindAllStringIndex(text, -1) {
		depth := 1
		i := at[1]
		for ; i < len(text) && depth > 0; i++ {
			switch text[i] {
			case '{':
				depth++
			case '}':
				depth--
			}
		}
		for k := at[0]; k < i; k++ {
			if b[k] != '\n' {
				b[k] = ' '
			}
		}
	}
	return string(b)
}
