package config

import (
	"fmt"
	"strings"
)

// SplitWords splits a flag's value as a shell would for plain words, quotes and backslashes; nothing is expanded.
func SplitWords(s string) ([]string, error) {
	var words []string
	var b strings.Builder
	var quote rune
	inWord, escaped := false, false
	for _, r := range s {
		switch {
		case escaped:
			b.WriteRune(r)
			escaped = false
		case r == '\\' && quote != '\'':
			escaped, inWord = true, true
		case quote != 0:
			if r == quote {
				quote = 0
			} else {
				b.WriteRune(r)
			}
		case r == '\'' || r == '"':
			quote, inWord = r, true
		case r == ' ' || r == '\t' || r == '\n':
			if inWord {
				words = append(words, b.String())
				b.Reset()
				inWord = false
			}
		default:
			b.WriteRune(r)
			inWord = true
		}
	}
	if quote != 0 || escaped {
		return nil, fmt.Errorf("%q has an open quote", s)
	}
	if inWord {
		words = append(words, b.String())
	}
	return words, nil
}
