package source

import (
	"strings"
	"testing"
)

// TestOnlyCodeGates tells what counts as code of a package's own, and what only speaks of it.
func TestOnlyCodeGates(t *testing.T) {
	tests := []struct {
		story, text string
		want        bool
	}{
		{"an item", "#[cfg(feature = \"cuda\")]\nmod gpu;", true},
		{"an expression", `if cfg!(feature = "cuda") { 1 } else { 2 }`, true},
		{"behind an address in a string", "let a = \"http://x\"; #[cfg(feature = \"cuda\")] run();", true},
		{"behind a quote as a character", "let a = '\"'; #[cfg(feature = \"cuda\")] run();", true},
		{"behind an escaped quote as a character", "let a = '\\''; let b = '\"'; #[cfg(feature = \"cuda\")] run();", true},
		{"behind a lifetime", "fn f<'a>(x: &'a str) {}\n#[cfg(feature = \"cuda\")] mod gpu;", true},
		{"behind a raw string", "let a = r#\"a \" b\"#; #[cfg(feature = \"cuda\")] run();", true},
		{"a line comment", `// #[cfg(feature = "cuda")]`, false},
		{"a block comment", "/* one\n/* cfg(feature = \"cuda\") */\n*/ fn main() {}", false},
		{"documentation of the file", "/*! With `cfg(feature = \"cuda\")` it is fast. */\nfn main() {}", false},
		{"a string", `println!("build with cfg(feature = \"cuda\")");`, false},
		{"a raw string", "println!(r#\"cfg(feature = \"cuda\")\"#);", false},
		{"a module of tests", "#[cfg(test)]\nmod tests {\n fn f() { if cfg!(feature = \"cuda\") { } }\n}\nfn main() {}", false},
		{"behind a module of tests", "#[cfg(test)]\nmod tests {\n fn f() { let a = \"}\"; }\n}\n#[cfg(feature = \"cuda\")]\nmod gpu;", true},
		{"a compile_error", "#[cfg(feature = \"cuda\")]\ncompile_error!(\"no\");", false},
		{"another feature", `#[cfg(feature = "cuda-extra")] mod gpu;`, false},
	}
	for _, tt := range tests {
		if got := gatesCode(tt.text, testOf("cuda")); got != tt.want {
			t.Errorf("%s: got %v of\n%s\nsearched as\n%s", tt.story, got, tt.text, code(tt.text, "cuda"))
		}
	}
}

func FuzzCode(f *testing.F) {
	for _, s := range []string{`'`, `'\`, `r#"`, `/*/*`, `"\`, "#[cfg(test)] mod t {", `b'x' r"`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got := code(text, "cuda")
		if len(got) != len(text) || strings.Count(got, "\n") != strings.Count(text, "\n") {
			t.Errorf("%q became %q", text, got)
		}
	})
}
