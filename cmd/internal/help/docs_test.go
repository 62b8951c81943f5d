package help

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"gpubuild/buildenv/hosttest"
	"gpubuild/cmd/internal/config"
)

var update = flag.Bool("update", false, "rewrite docs/configuration.md")

// property is what the page says of a part of the JSON Schema.
type property struct {
	Type        any                  `json:"type"`
	Description string               `json:"description"`
	Ref         string               `json:"$ref"`
	AnyOf       []property           `json:"anyOf"`
	Items       *property            `json:"items"`
	Properties  map[string]*property `json:"properties"`
	Additional  json.RawMessage      `json:"additionalProperties"`
	Defs        map[string]*property `json:"$defs"`
}

// kind words a type as TOML has it.
func (p property) kind() string {
	if len(p.AnyOf) > 0 {
		return p.AnyOf[0].kind() + " or " + p.AnyOf[1].kind()
	}
	name := fmt.Sprint(p.Type)
	if list, ok := p.Type.([]any); ok {
		name = fmt.Sprint(list[0])
	}
	switch name {
	case "array":
		return "list of " + strings.Replace(p.Items.kind(), "integer", "number", 1) + "s"
	case "object":
		var of property
		if json.Unmarshal(p.Additional, &of) == nil && of.Type != nil {
			return "table of " + strings.Replace(of.kind(), "list", "lists", 1)
		}
		return "table"
	}
	return name
}

// TestDocsOfConfiguration: docs/configuration.md has every key of the schema, every variable and the user's file of `gpubuild help config`.
func TestDocsOfConfiguration(t *testing.T) {
	data := hosttest.Must(os.ReadFile("../../../schema/gpubuild.toml.schema.json"))(t)
	var schema property
	hosttest.OK(t, json.Unmarshal(data, &schema))
	_, user, found := strings.Cut(configHelp, "GPUBUILD_CONFIG:\n\n")
	if !found {
		t.Fatal("the help has no end of its example")
	}
	var b strings.Builder
	b.WriteString(`# Configuration

<!-- Generated from schema/gpubuild.toml.schema.json and the help: run ` + "`go test ./cmd/internal/help -run TestDocs -update`" + `. -->

gpubuild needs no configuration. A project can have a ` + "`gpubuild.toml`" + ` in the workspace root: ` + "`gpubuild init`" +
		` writes one with comments, and ` + "`gpubuild help config`" + `
prints one with every key.
The same keys can be in ` + "`[workspace.metadata.gpubuild]` and `[package.metadata.gpubuild]`" + ` of a Cargo.toml. The table of a
package counts where the command line selects that package, by ` + "`-p`, `--manifest-path` or the directory" + `. Of several selected packages the names in
` + "`gpu-features` and `gpu-packages`" + ` count together; another key that two of them have counts as in the first, with a warning. A package's
` + "`prove`" + ` is about its own programs.

Flags take precedence over ` + "`GPUBUILD_*`" + ` variables, then come gpubuild.toml, the metadata of the workspace, that of the package, and the defaults.
An unknown key is an error (exit code 30) with its line.

A repository cannot start a download or name a download address: such keys are errors. Compilers and toolkits inside the repository need your consent,
see [Security](../SECURITY.md).

An editor can check and complete the file with the JSON Schema ` + "`schema/gpubuild.toml.schema.json`" + ` of the repository.

## Keys
`)
	var table func(name string, p property)
	table = func(name string, p property) {
		b.WriteString("\n| key | type | meaning |\n| --- | --- | --- |\n")
		keys := slices.Sorted(maps.Keys(p.Properties))
		resolve := func(key string) (inner *property, array bool) {
			v := p.Properties[key]
			if v.Items != nil && v.Items.Ref != "" {
				return schema.Defs[strings.TrimPrefix(v.Items.Ref, "#/$defs/")], true
			}
			if v.Ref != "" {
				return schema.Defs[strings.TrimPrefix(v.Ref, "#/$defs/")], false
			}
			if of := new(property); len(v.Additional) > 0 && json.Unmarshal(v.Additional, of) == nil && of.Ref != "" {
				return schema.Defs[strings.TrimPrefix(of.Ref, "#/$defs/")], false
			}
			if len(v.Properties) > 0 {
				return v, false
			}
			return nil, false
		}
		for _, key := range keys {
			if inner, _ := resolve(key); inner != nil {
				continue
			}
			v := p.Properties[key]
			if v.Description == "" {
				t.Errorf("%s%s has no description", name, key)
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", key, v.kind(), v.Description)
		}
		for _, key := range keys {
			inner, array := resolve(key)
			if inner == nil {
				continue
			}
			title := name + key
			if len(p.Properties[key].Additional) > 0 && len(p.Properties[key].Properties) == 0 && p.Properties[key].Ref == "" {
				title += ".NAME"
			}
			if array {
				fmt.Fprintf(&b, "\n### `[[%s]]`\n\n%s\n", title, p.Properties[key].Description)
			} else {
				fmt.Fprintf(&b, "\n### `[%s]`\n\n%s\n", title, p.Properties[key].Description)
			}
			table(name+key+".", *inner)
		}
	}
	table("", schema)
	fmt.Fprintf(&b, "\n## Your own configuration\n\nIt is `gpubuild/config.toml` in your configuration "+
		"directory, or the file that `GPUBUILD_CONFIG` names.\n\n```toml\n%s```\n\n## Environment variables\n\n| variable | meaning |\n"+
		"| --- | --- |\n", user)
	for _, v := range variables {
		fmt.Fprintf(&b, "| `%s` | %s |\n", strings.ReplaceAll(v.Name, ", ", "`, `"), v.Meaning)
	}
	const path = "../../../docs/configuration.md"
	if *update {
		hosttest.OK(t, os.WriteFile(path, []byte(b.String()), 0o644))
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != b.String() {
		t.Errorf("%s is not what the schema and the help say (rewrite it with -update): %v", path, err)
	}
}

// TestHelpShowsEveryKey: what `gpubuild help config` prints is a file that the program reads, with every key that a file may have.
func TestHelpShowsEveryKey(t *testing.T) {
	_, file, _ := strings.Cut(configHelp, "\n\n")
	file, _, found := strings.Cut(file, "\nThe same keys work")
	if !found {
		t.Fatal("the help has no end of its example")
	}
	c := hosttest.Must(config.Read([]config.Source{{Path: "help", Data: []byte(file)}}))(t)
	filled := func(name string, v any) {
		var walk func(path string, v reflect.Value)
		walk = func(path string, v reflect.Value) {
			switch v.Kind() {
			case reflect.Pointer:
				walk(path, v.Elem())
			case reflect.Struct:
				for i := range v.NumField() {
					f := v.Type().Field(i)
					key := f.Tag.Get("toml")
					switch {
					case v.Field(i).IsZero() && key != "expect-exit":
						t.Errorf("the help does not show %s.%s", path, key)
					default:
						if !strings.Contains(file, key) {
							t.Errorf("the help does not name %s.%s", path, key)
						}
					}
				}
			}
		}
		walk(name, reflect.ValueOf(v))
	}
	filled("ci", c.CI.Value)
	filled("prove", c.Prove.Value)
}
