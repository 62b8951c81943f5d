package help

import (
	"reflect"
	"strings"
	"testing"

	"gpubuild/cmd/internal/config"
)

// TestHelpShowsEveryKey: what `gpubuild help config` prints is a file that the program reads, with every key that a file may have.
func TestHelpShowsEveryKey(t *testing.T) {
	_, file, _ := strings.Cut(configHelp, "\n\n")
	file, _, found := strings.Cut(file, "\nThe same keys work")
	if !found {
		t.Fatal("the help has no end of its example")
	}
	c, err := config.Read([]config.Source{{Path: "help", Data: []byte(file)}})
	if err != nil {
		t.Fatal(err)
	}
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
