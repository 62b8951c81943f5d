package verify

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestLiterals(t *testing.T) {
	tests := []struct {
		re   string
		want []string
	}{
		{`abc`, []string{"abc"}},
		{`(?i)GEMM`, []string{"gemm"}},
		{`^standin_many_`, []string{"standin_many_"}},
		{`mul_?mat`, []string{"mulmat", "mul_mat"}},
		{`m(?:vq|q)|ge[mv]m`, []string{"mvq", "mq", "gemm", "gevm"}},
		{`ab.*cde`, []string{"cde"}},
		{`abc[^x]d`, []string{"abc"}},
		{`(?:gemm|wxyz)+x`, []string{"gemm", "wxyz"}},
		{`x*(?:yz)?`, nil},
		{`.*`, nil},
		{`abc|.`, nil},
		{`(abc)?`, nil},
		{`(abc){0,3}`, nil},
		{`(abc){2,3}`, []string{"abc"}},
		{`(?i)mask`, nil},
		{`é`, nil},
	}
	for _, tt := range tests {
		if got := newMatcher(regexp.MustCompile(tt.re)).literals; !slices.Equal(got, tt.want) {
			t.Errorf("%s: got %q, want %q", tt.re, got, tt.want)
		}
	}
	if m := newMatcher(DefaultPatterns().Any); len(m.literals) == 0 {
		t.Error("the usual patterns have no literals: thousands of names would take minutes")
	}
}

// FuzzMatcher: what the short way says is what the expression itself says.
func FuzzMatcher(f *testing.F) {
	f.Add(DefaultPatterns().Any.String(), "ampere_SGEMM_128x64")
	f.Add(`(?i)k|mask`, "\u212A")
	f.Add(`(?i)ſ+a{2}|b`, "SAA")
	f.Add(`a(b|c(d|E)?)+\b`, "ABCE")
	f.Fuzz(func(t *testing.T, expression, name string) {
		re, err := regexp.Compile(expression)
		if err != nil {
			return
		}
		if got, want := newMatcher(re).match(name, strings.ToLower(name)), re.MatchString(name); got != want {
			t.Errorf("%q of %q: %v, want %v", expression, name, got, want)
		}
	})
}
