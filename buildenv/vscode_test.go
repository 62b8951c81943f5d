package buildenv_test

import (
	"encoding/json"
	"reflect"
	"regexp"
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
	if text, err = s.Tasks(); err != nil {
		t.Fatal(err)
	}
	var tasks struct {
		Tasks []struct {
			Args           []string
			ProblemMatcher []any
		}
	}
	if err := json.Unmarshal([]byte(text), &tasks); err != nil {
		t.Fatal(err)
	}
	if got := tasks.Tasks[0].Args; !reflect.DeepEqual(got, []string{"build", "--features=cuda,cudnn", "--features=a b", "--no-default-features"}) {
		t.Errorf("the task runs %q", got)
	}
	// What gpubuild prints of a finding is what the matcher reads.
	patterns := tasks.Tasks[0].ProblemMatcher[1].(map[string]any)["pattern"].([]any)
	for i, line := range []string{"error: `cuda` of app does not enable candle-core [features.unreached]", "  --> app/Cargo.toml:12"} {
		if !regexp.MustCompile(patterns[i].(map[string]any)["regexp"].(string)).MatchString(line) {
			t.Errorf("%q is no problem", line)
		}
	}
}
