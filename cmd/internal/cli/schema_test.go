package cli_test

import (
	"bytes"
	"cmp"
	"encoding"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/BurntSushi/toml"

	"gpubuild/buildenv/finding"
	"gpubuild/cmd/internal/cli"
	"gpubuild/cmd/internal/config"
	"gpubuild/cmd/internal/hosttest/clitest"
	"gpubuild/cmd/internal/receipt"
	"gpubuild/cmd/internal/report"
	"gpubuild/cmd/internal/watch"
)

// object is a JSON Schema, or a part of one.
type object = map[string]any

// schemas makes JSON Schemas of Go types. Those that several answers hold are written once, in the file that shared names.
type schemas struct {
	tag    string // json or toml
	shared string // empty: the definitions are in the schema's own file
	defs   object
	types  map[string]reflect.Type // of defs
}

func newSchemas(tag, shared string) *schemas {
	return &schemas{tag, shared, object{}, map[string]reflect.Type{}}
}

// sharedFile has the definitions of all answers, named by its path from a schema beside it.
const sharedFile = "defs.schema.json"

func (s *schemas) of(t reflect.Type) any {
	zero := reflect.New(t)
	switch v := zero.Interface().(type) {
	case *time.Time:
		return object{"type": "string", "format": "date-time"}
	case *json.RawMessage:
		return object{}
	case *config.Kernels:
		return object{"anyOf": []any{object{"type": "string"}, object{"type": "array", "items": object{"type": "string"}}}}
	case encoding.TextMarshaler, json.Marshaler:
		if t.Kind() != reflect.Pointer {
			return object{"type": written(v)}
		}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return object{"anyOf": []any{s.of(t.Elem()), object{"type": "null"}}}
	case reflect.Struct:
		if t.Name() == "" {
			return s.fields(t)
		}
		name := t.String()
		if s.defs[name] == nil {
			s.types[name], s.defs[name] = t, object{} // a type may hold itself
			s.defs[name] = s.fields(t)
		} else if s.types[name] != t {
			panic("two types are called " + name)
		}
		return object{"$ref": s.shared + "#/$defs/" + name}
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 {
			return object{"type": []any{"string", "null"}}
		}
		if s.tag == "toml" {
			return object{"type": "array", "items": s.of(t.Elem())}
		}
		return object{"type": []any{"array", "null"}, "items": s.of(t.Elem())}
	case reflect.Map:
		return object{"type": []any{"object", "null"}, "additionalProperties": s.of(t.Elem())}
	case reflect.String:
		return object{"type": "string"}
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Float32, reflect.Float64:
		return object{"type": "number"}
	case reflect.Interface:
		return object{}
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return object{"type": "integer", "minimum": 0}
	}
	return object{"type": "integer"}
}

// written is the JSON type of what a type writes itself.
func written(v any) string {
	data, err := json.Marshal(v)
	switch {
	case err != nil || data[0] == '"':
		return "string"
	case data[0] == '{':
		return "object"
	case data[0] == '[':
		return "array"
	}
	return "integer"
}

// fields is the object of a struct. A field of the struct itself hides one of the same name that is embedded.
func (s *schemas) fields(t reflect.Type) object {
	properties, required := object{}, []any{}
	s.collect(t, properties, &required, map[string]bool{})
	return object{"type": "object", "properties": properties, "required": required, "additionalProperties": false}
}

func (s *schemas) collect(t reflect.Type, properties object, required *[]any, hidden map[string]bool) {
	var embedded []reflect.Type
	for i := range t.NumField() {
		f := t.Field(i)
		name, rest, _ := strings.Cut(f.Tag.Get(s.tag), ",")
		if f.Anonymous && name == "" {
			inner := f.Type
			if inner.Kind() == reflect.Pointer {
				inner = inner.Elem()
			}
			embedded = append(embedded, inner)
			continue
		}
		if name == "" {
			name = f.Name
		}
		if !f.IsExported() || name == "-" || hidden[name] {
			continue
		}
		hidden[name] = true
		if f.Type == reflect.TypeOf((*struct{})(nil)) { // it only hides another one
			continue
		}
		kind := f.Type
		omitted := strings.Contains(rest, "omit") || s.tag == "toml"
		if omitted && kind.Kind() == reflect.Pointer {
			kind = kind.Elem()
		}
		properties[name] = s.of(kind)
		if !omitted {
			*required = append(*required, name)
		}
	}
	for _, e := range embedded {
		s.collect(e, properties, required, hidden)
	}
}

// file is a whole schema. $id is the file's own name, so that a reference to a file beside it is found wherever they are kept.
func (s *schemas) file(id, title string, body object) []byte {
	body["$schema"], body["$id"], body["title"] = "https://json-schema.org/draft/2020-12/schema", id+".schema.json", title
	if len(s.defs) > 0 && s.shared == "" {
		body["$defs"] = s.defs
	}
	return append(layout(body, ""), '\n')
}

// layout writes JSON with what fits on a line of 120 columns on one line.
func layout(v any, indent string) []byte {
	var flat bytes.Buffer
	e := json.NewEncoder(&flat)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err)
	}
	line := bytes.TrimSpace(flat.Bytes())
	if len(indent)+len(line) <= 120 {
		return line
	}
	var parts [][]byte
	var open, end string
	switch v := v.(type) {
	case object:
		open, end = "{", "}"
		short := map[string]bool{} // what a line has room for beside others
		for key := range v {
			switch v[key].(type) {
			case string, bool, int:
				short[key] = true
			}
		}
		keys := slices.SortedFunc(maps.Keys(v), func(a, b string) int {
			if short[a] != short[b] && short[a] {
				return -1
			} else if short[a] != short[b] {
				return 1
			}
			return cmp.Compare(a, b)
		})
		for i, key := range keys {
			part := slices.Concat([]byte(`"`+key+`": `), layout(v[key], indent+" "))
			last := len(parts) - 1
			if i > 0 && short[key] && len(indent)+len(parts[last])+len(part) < 118 {
				parts[last] = slices.Concat(parts[last], []byte(", "), part)
				continue
			}
			parts = append(parts, part)
		}
	case []any:
		open, end = "[", "]"
		for _, one := range v {
			part := layout(one, indent+" ")
			last := len(parts) - 1
			if _, text := one.(string); text && last >= 0 && len(indent)+len(parts[last])+len(part) < 118 {
				parts[last] = slices.Concat(parts[last], []byte(", "), part)
				continue
			}
			parts = append(parts, part)
		}
	default:
		return line
	}
	return slices.Concat([]byte(open+"\n"+indent+" "), bytes.Join(parts, []byte(",\n"+indent+" ")), []byte("\n"+indent+end))
}

// envelope is the schema of a verb's answer: whole, or of a command line that ended before it had one.
func (s *schemas) envelope(verb string, own any, result bool) []byte {
	body := s.fields(reflect.TypeOf(own))
	properties := body["properties"].(object)
	whole := slices.Clone(body["required"].([]any))
	if result {
		properties["result"] = s.of(reflect.TypeOf(report.Result{}))
		whole = append(whole, "result")
	}
	properties["schema"] = object{"const": "gpubuild/" + verb + "/1"}
	properties["ok"] = object{"type": "boolean"}
	properties["findings"] = object{"type": "array", "items": s.of(reflect.TypeOf(finding.Finding{}))}
	failed := object{"required": []any{"exit_code"}, "properties": object{"ok": object{"const": false}}}
	if properties["exit_code"] == nil {
		properties["exit_code"] = object{"type": "integer"}
	}
	body["required"] = []any{"schema", "ok", "findings"}
	body["anyOf"] = []any{object{"required": whole}, failed}
	return s.file(verb, "The answer of gpubuild "+strings.ReplaceAll(verb, "-", " "), body)
}

// wanted are all schemas, by the name of their file.
func wanted() map[string][]byte {
	out := map[string][]byte{}
	answers := newSchemas("json", sharedFile)
	plain, results := cli.Answers()
	for verb, own := range plain {
		out[verb] = answers.envelope(verb, own, false)
	}
	for verb, own := range results {
		out[verb] = answers.envelope(verb, own, true)
	}
	for name, v := range map[string]any{"receipt": receipt.Receipt{}, "watch-sample": watch.Sample{}} {
		body := answers.fields(reflect.TypeOf(v))
		body["properties"].(object)["schema"] = object{"const": "gpubuild/" + name + "/1"}
		out[name] = answers.file(name, "What gpubuild writes as "+name, body)
	}
	answers.shared = ""
	out["defs"] = answers.file("defs", "Types that several answers of gpubuild hold", object{})
	out["defs"] = bytes.ReplaceAll(out["defs"], []byte(`"`+sharedFile+`#/`), []byte(`"#/`))
	s := newSchemas("toml", "")
	body := s.fields(reflect.TypeOf(config.File{}))
	describe(body, s.defs)
	out["gpubuild.toml"] = s.file("gpubuild.toml", "gpubuild.toml", body)
	return out
}

// describe gives each key of gpubuild.toml the comment of its field in package config.
func describe(body, defs object) {
	structs := map[string]*ast.StructType{}
	files, err := filepath.Glob(filepath.Join(repository, "cmd", "internal", "config", "*.go"))
	if err != nil {
		panic(err)
	}
	for _, path := range files {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			panic(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if spec, ok := n.(*ast.TypeSpec); ok {
				structs[spec.Name.Name], _ = spec.Type.(*ast.StructType)
			}
			return true
		})
	}
	var fields func(t *ast.StructType, to object)
	fields = func(t *ast.StructType, to object) {
		for _, f := range t.Fields.List {
			if name, embedded := f.Type.(*ast.Ident); embedded && len(f.Names) == 0 {
				fields(structs[name.Name], to)
			}
			if f.Tag == nil || f.Doc == nil {
				continue
			}
			key := regexp.MustCompile(`toml:"([a-z-]+)"`).FindStringSubmatch(f.Tag.Value)
			property := to["properties"].(object)[key[1]].(object)
			property["description"] = strings.Join(strings.Fields(f.Doc.Text()), " ")
			if inner, ok := f.Type.(*ast.StructType); ok {
				fields(inner, property)
			}
		}
	}
	fields(structs["File"], body)
	for name, to := range defs {
		if t := structs[strings.TrimPrefix(name, "config.")]; t != nil {
			fields(t, to.(object))
		}
	}
}

// TestSchemasAreOfTheTypes: what is published says what the types write. Rewrite with -update.
func TestSchemasAreOfTheTypes(t *testing.T) {
	t.Parallel()
	made := wanted()
	for name, want := range made {
		if *update {
			noError(t, os.MkdirAll(filepath.Dir(clitest.SchemaFile(repository, name)), 0o755))
			noError(t, os.WriteFile(clitest.SchemaFile(repository, name), want, 0o644))
		}
		if got, err := os.ReadFile(clitest.SchemaFile(repository, name)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not that of the Go type (rewrite with -update): %v", clitest.SchemaFile(repository, name), err)
		}
	}
	there, err := filepath.Glob(clitest.SchemaFile(repository, "*"))
	if err != nil || len(there) != len(made) {
		t.Errorf("%d files for %d schemas: %v", len(there), len(made), err)
	}
}

// TestAnswersKeepToTheirSchemas: answers of verbs that need no project, and those that the renderers' golden files hold. Scripts check the
// others as they run (clitest.Checked).
func TestAnswersKeepToTheirSchemas(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	noError(t, err)
	for _, words := range []string{"version", "cache", "toolchain list", "explain 209", "scan " + self, "scan",
		"prove", "receipt", "receipt bogus", "receipt verify", "toolchain lst", "cache bogus", "cache show bogus"} {
		var out, errs bytes.Buffer
		cli.Main(append([]string{"gpubuild"}, strings.Fields(words+" --json")...), strings.NewReader(""), &out, &errs)
		if err := clitest.Validate(repository, out.Bytes()); err != nil {
			t.Errorf("%s: %#v\n%.2000s\n%s", words, err, out.String(), errs.String())
		}
	}
	golden, err := filepath.Glob(filepath.Join(repository, "testdata", "golden", "render", "*.json"))
	if err != nil || len(golden) == 0 {
		t.Fatal(golden, err)
	}
	for _, file := range golden {
		data, err := os.ReadFile(file)
		if err == nil {
			err = clitest.Validate(repository, data)
		}
		if err != nil {
			t.Errorf("%s: %#v", file, err)
		}
	}
	// A schema must be able to say no.
	for _, bad := range []string{`{"schema":"gpubuild/version/1","ok":true,"findings":[]}`,
		`{"schema":"gpubuild/scan/1","ok":true,"findings":[],"files":[],"x":1}`,
		`{"schema":"gpubuild/scan/1","ok":true,"findings":[],"exit_code":2}`} {
		if clitest.Validate(repository, []byte(bad)) == nil {
			t.Errorf("accepted: %s", bad)
		}
	}
}

// TestTheConfigurationKeepsToItsSchema: the example of `gpubuild help config`, which has every key, is a valid one.
func TestTheConfigurationKeepsToItsSchema(t *testing.T) {
	t.Parallel()
	var out, errs bytes.Buffer
	if code := cli.Main([]string{"gpubuild", "help", "config"}, nil, &out, &errs); code != 0 {
		t.Fatal(errs.String())
	}
	_, file, _ := strings.Cut(out.String(), "\n\n")
	file, _, _ = strings.Cut(file, "\nThe same keys work")
	var doc map[string]any
	if _, err := toml.Decode(file, &doc); err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(doc)
	noError(t, err)
	if err := clitest.ValidateBy(repository, "gpubuild.toml", data); err != nil {
		t.Errorf("%#v", err)
	}
	if clitest.ValidateBy(repository, "gpubuild.toml", []byte(`{"matrix":{"archs":["sm_80"]}}`)) == nil {
		t.Error("an unknown key is accepted")
	}
}
