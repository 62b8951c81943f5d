package manifest

import (
	"reflect"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
	fast "github.com/pelletier/go-toml/v2"
)

// FuzzReadTOML holds the two readers against each other: what the fast one takes, the one whose errors are shown takes, too, and reads the
// same.
func FuzzReadTOML(f *testing.F) {
	for _, text := range []string{
		"[package]\nname = \"a\"\n[features]\ncuda = [\"dep:cudarc\", \"x?/y\"]\n[dependencies]\ncudarc = { version = \"1\", optional = true }\n[target.'cfg(unix)'.dependencies]\nx.workspace = true\n",
		"[[bin]]\nname = \"a\"\n[[bin]]\nname = \"b\"\nrequired-features = [\"cuda\"]\n[[bin.more]]\nx = 1\n",
		"bin = [{ name = \"a\" }, { name = \"b\" }]\nexample = []\nmixed = [1, { a = 2 }]\n",
		"\uFEFF[package]\r\nname = '''a'''\r\nx = \"\"\"\\\r\n  b\"\"\"\r\n",
		"d = {\n a = 1, # c\n b = [\n 2, ],\n}\ne = \"\\e\\x41\"\n",
		"a.b.c = 1979-05-27T07:32:00Z\na.b.d = 07:32:00\na.e = 1979-05-27\nf = [0x1F, 0o7, 0b1, 1_000, -0, +1.5e3, inf, nan, true]\n",
		"a = { x = 1 }\na.y = 2\n", "[a]\n[a]\n", "a = 1\na = 2\n", "[a.b]\n[a]\nb.c = 1\n",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		text = strings.TrimPrefix(text, "\uFEFF")
		quick, slow := map[string]any{}, map[string]any{}
		if fast.Unmarshal([]byte(text), &quick) != nil {
			return
		}
		if _, err := toml.Decode(text, &slow); err != nil {
			t.Fatalf("only one of the readers takes it: %v\n%q", err, text)
		}
		if a, b := plainOf(quick), plainOf(slow); !reflect.DeepEqual(a, b) {
			t.Errorf("%q\n%v\n%v", text, a, b)
		}
	})
}

// plainOf is a value as manifests are read: arrays of tables as lists; times, which no manifest has for anything read here, by their being
// there.
func plainOf(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for k, e := range v {
			out[k] = plainOf(e)
		}
		return out
	case []map[string]any:
		out := []any{}
		for _, e := range v {
			out = append(out, plainOf(e))
		}
		return out
	case []any:
		out := []any{}
		for _, e := range v {
			out = append(out, plainOf(e))
		}
		return out
	case string, int64, bool:
		return v
	case float64:
		if v != v {
			return "nan"
		}
		return v
	}
	return "a time"
}

// BenchmarkReadTOML reads a manifest of a workspace's member with each reader.
func BenchmarkReadTOML(b *testing.B) {
	const text = "[package]\nname = \"p400\"\nversion = \"0.1.0\"\nedition = \"2021\"\n\n[features]\nfast = []\ncuda = [\"candle-core/cuda\", \"p399/cuda\", \"p393/cuda\"]\n\n" +
		"[dependencies]\ncandle-core = { path = \"../candle-core\" }\np399 = { path = \"../p399\" }\np393 = { path = \"../p393\" }\n"
	for name, read := range map[string]func(*map[string]any) error{
		"go-toml":    func(raw *map[string]any) error { return fast.Unmarshal([]byte(text), raw) },
		"BurntSushi": func(raw *map[string]any) error { _, err := toml.Decode(text, raw); return err },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for range b.N {
				raw := map[string]any{}
				if err := read(&raw); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
