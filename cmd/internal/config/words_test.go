package config_test

import (
	"testing"

	"gpubuild/cmd/internal/config"
)

// TestValuesOfAnotherType: a user reads TOML's words, not Go's.
func TestValuesOfAnotherType(t *testing.T) {
	for text, want := range map[string]string{
		"strict = 1":                  "gpubuild.toml:1: strict has a value of the wrong type",
		"gpu-features = [1, 2]":       "gpubuild.toml:1: gpu-features has a value of the wrong type",
		"[toolchain]\ncuda = {a = 1}": "gpubuild.toml:2: toolchain.cuda has a value of the wrong type",
		"prove = 1":                   "gpubuild.toml:1: prove has a value of the wrong type",
	} {
		_, err := config.Read([]config.Source{{Path: "gpubuild.toml", Data: []byte(text)}})
		if err == nil || err.Error() != want {
			t.Errorf("%q:\n got %v\nwant %s", text, err, want)
		}
	}
}
