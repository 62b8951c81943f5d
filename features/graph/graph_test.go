package graph

import (
	"strings"
	"testing"

	"gpubuild/buildenv/exit"
)

func TestParseGraphRefuses(t *testing.T) {
	for story, text := range map[string]string{
		"no JSON":            "warning: something",
		"another version":    `{"version":2,"units":[],"roots":[]}`,
		"no version":         `{"units":[],"roots":[]}`,
		"a root too far":     `{"version":1,"units":[],"roots":[0]}`,
		"an edge too far":    `{"version":1,"units":[{"pkg_id":"a","dependencies":[{"index":1}]}],"roots":[0]}`,
		"a unit of nothing":  `{"version":1,"units":[{}],"roots":[0]}`,
		"cut off":            `{"version":1,"units":[{"pkg_id":"a"`,
		"features no list":   `{"version":1,"units":[{"pkg_id":"a","features":"x"}],"roots":[]}`,
		"a second text":      `{"version":1,"units":[],"roots":[]}{}`,
		"version as a text":  `{"version":"1","units":[],"roots":[]}`,
		"nothing whatsoever": "",
	} {
		if _, err := Parse(strings.NewReader(text)); exit.Hint(err) == "" {
			t.Errorf("%s: %v", story, err)
		}
	}
}
