package buildenv_test

import (
	"encoding/json"
	"reflect"
	"testing"

	"gpubuild/buildenv"
)

func TestVSCodeBuildsWithTheSameFeatures(t *testing.T) {
	t.Parallel()
	s := buildenv.Selected{Features: []string{"cuda,cudnn", "a b"}, NoDefault: true}
	text, err := s.Settings(`{"rust-analyzer.cargo.extraEnv":{"A":null}}`)
	if err != nil {
		t.Fatal(err)
	}
	var settings map[string]any
	if err := json.Unmarshal([]byte(text), &settings); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"rust-analyzer.cargo.extraEnv": map[string]any{"A": nil}, "rust-analyzer.cargo.noDefaultFeatures": true,
		"rust-analyzer.cargo.features": []any{"cuda", "cudnn", "a", "b"}}
	if !reflect.DeepEqual(settings, want) {
		t.Errorf("got %v, want %v", settings, want)
	}
}
