package manifest

import (
	"strings"

	"github.com/BurntSushi/toml"
	fast "github.com/pelletier/go-toml/v2"
)

// readTOML decodes a manifest. A large workspace has hundreds of them, and go-toml takes a tenth of the time that BurntSushi/toml takes
// (BenchmarkReadTOML). What it does not take the other one decides and words: it says what is wrong in a person's words, and knows the
// place of each key (SyntaxError). Both read TOML 1.1, as cargo does since 1.94. Arrays of tables differ in their type: tablesOf.
func readTOML(data []byte) (map[string]any, error) {
	text := strings.TrimPrefix(string(data), "\uFEFF")
	raw := map[string]any{}
	if fast.Unmarshal([]byte(text), &raw) == nil {
		return raw, nil
	}
	if err := TooDeep(data); err != nil {
		return nil, err
	}
	raw = map[string]any{}
	_, err := toml.Decode(text, &raw)
	return raw, err
}

// deepest is how far tables may be nested; the readers take quadratic time, and nobody nests them ten deep.
const deepest = 200

// TooDeep is an error where a TOML text nests inline tables or dotted keys so deeply that reading it would take seconds.
func TooDeep(data []byte) error {
	depth, dots := 0, 0
	for at, c := range data {
		switch c {
		case '{':
			depth++
		case '}':
			depth--
		case '.':
			dots++
		case '\n', '"', '\'', '=':
			dots = 0
		}
		if depth > deepest || dots > deepest {
			line := 1 + strings.Count(string(data[:at]), "\n")
			return toml.ParseError{Message: "tables are nested more than 200 deep", Position: toml.Position{Line: line, Start: at, Len: 1}}
		}
	}
	return nil
}

// tablesOf answers an array of tables, written as [[such]] or as a list of inline tables; nil for anything else.
func tablesOf(v any) []map[string]any {
	switch v := v.(type) {
	case []map[string]any:
		return v
	case []any:
		out := make([]map[string]any, 0, len(v))
		for _, e := range v {
			t, ok := e.(map[string]any)
			if !ok {
				return nil
			}
			out = append(out, t)
		}
		return out
	}
	return nil
}
