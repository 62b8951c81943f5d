package buildenv

import (
	"bytes"
	"fmt"

	"github.com/BurntSushi/toml"
	fast "github.com/pelletier/go-toml/v2"
)

// deepest is how far cargo allows tables and arrays to be nested (1.95: "recursion limit"). BurntSushi/toml takes quadratic time for it.
const deepest = 80

// small is the size, in bytes, up to which go-toml reads a text. It takes a tenth of the time of BurntSushi/toml, but quadratic time in the
// number of a table's keys.
const small = 128 << 10

// ReadTOML decodes a file of cargo's, in a time that a repository cannot stretch. An array of tables becomes []any or []map[string]any.
// Both readers know TOML 1.1, as cargo does since 1.94.
func ReadTOML(data []byte) (raw map[string]any, err error) {
	data = bytes.TrimPrefix(data, []byte("\uFEFF"))
	if len(data) <= small {
		return raw, fast.Unmarshal(data, &raw)
	}
	if err := TooDeep(data); err != nil {
		return nil, err
	}
	return raw, toml.Unmarshal(data, &raw)
}

// TooDeep is an error where a TOML text nests tables, arrays or dotted keys more deeply than cargo reads.
func TooDeep(data []byte) error {
	depth, dots := 0, 0
	for at, c := range data {
		switch c {
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		case '.':
			if at > 0 && data[at-1] != '.' { // a line of dots in a comment is no key
				dots++
			}
		case '\n', '"', '\'', '=':
			dots = 0
		}
		if depth > deepest || dots > deepest {
			return toml.ParseError{Message: fmt.Sprintf("tables are nested more than %d deep", deepest),
				Position: toml.Position{Line: 1 + bytes.Count(data[:at], []byte("\n")), Start: at, Len: 1}}
		}
	}
	return nil
}
