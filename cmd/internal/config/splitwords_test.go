package config_test

import (
	"strings"
	"testing"

	"gpubuild/cmd/internal/config"
)

func TestSplitWords(t *testing.T) {
	tests := []struct {
		in, want string
		ok       bool
	}{
		{`--device cuda`, "--device|cuda", true},
		{`  'a b'  "c d" e\ f `, "a b|c d|e f", true},
		{`''`, "", true},
		{`'open`, "", false},
		{`end\`, "", false},
	}
	for _, tt := range tests {
		got, err := config.SplitWords(tt.in)
		if (err == nil) != tt.ok || strings.Join(got, "|") != tt.want {
			t.Errorf("splitWords(%q) = %q, %v; want %q", tt.in, got, err, tt.want)
		}
	}
}
