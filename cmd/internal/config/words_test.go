package config_test

import (
	"testing"

	"gpubuild/cmd/internal/config"
)

// TestValuesOfAnotherType: a user reads TOML's words, not Go's.
func TestValuesOfAnotherType(t *testing.T) {
	for text, want := range map[string]string{
		"strict = \"yes\"":               "gpubuild.toml:1: strict is text in quotes; it must be true or false",
		"strict = 1":                     "gpubuild.toml:1: strict is a whole number; it must be true or false",
		"gpu-features = \"a\"":           "gpubuild.toml:1: gpu-features is text in quotes; it must be a list in brackets",
		"gpu-features = [1, 2]":          "gpubuild.toml:1: gpu-features is a whole number; it must be text in quotes",
		"gpu-features = [true]":          "gpubuild.toml:1: gpu-features is true or false; it must be text in quotes",
		"[toolchain]\ncuda = 13.4":       "gpubuild.toml:2: toolchain.cuda is a number without quotes; it must be text in quotes",
		"[toolchain]\ncuda = [1]":        "gpubuild.toml:2: toolchain.cuda is a list; it must be text in quotes",
		"[toolchain]\ncuda = {a = 1}":    "gpubuild.toml:2: toolchain.cuda is a table; it must be text in quotes",
		"[toolchain]\ncuda = 2026-01-01": "gpubuild.toml:2: toolchain.cuda is something else; it must be text in quotes",
		"[prove]\nexpect-exit = \"0\"":   "gpubuild.toml:2: prove.expect-exit is text in quotes; it must be a whole number",
		"prove = 1":                      "gpubuild.toml:1: prove is a whole number; it must be a table",
		"toolchain = [1]":                "gpubuild.toml:1: toolchain is a list; it must be a table",
	} {
		_, err := config.Read([]config.Source{{Path: "gpubuild.toml", Data: []byte(text)}})
		if err == nil || err.Error() != want {
			t.Errorf("%q:\n got %v\nwant %s", text, err, want)
		}
	}
}
