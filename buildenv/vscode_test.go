package buildenv_test

import (
	"encoding/json"
	"reflect"
	"testing"

	"gpubuild/buildenv"
	"gpubuild/buildenv/hosttest"
)

func TestVSCodeBuildsWithTheSameFeatures(t *testing.T) {
	t.Parallel()
	s := buildenv.Selected{Features: []string{"cuda,cudnn", "a b"}, NoDefault: true}
	text := hosttest.Must(s.Settings(`{"rust-analyzer.cargo.extraEnv":{"A":null}}`))(t)
	var settings map[string]any
	hosttest.OK(t, json.Unmarshal([]byte(text), &settings))
	want := map[string]any{"rust-analyzer.cargo.extraEnv": map[string]any{"A": nil}, "rust-analyzer.cargo.noDefaultFeatures": true,
		"rust-analyzer.cargo.features": []any{"cuda", "cudnn", "a", "b"}}
	if !reflect.DeepEqual(settings, want) {
		t.Errorf("got %v, want %v", settings, want)
	}
}
