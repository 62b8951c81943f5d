package source

import (
	"strings"
	"testing"
)

// TestOnlyCodeGates says what counts as code of a package's own, and what only speaks of it.
func TestOnlyCodeGates(t *testing.T) {
	tests := []struct {
		story, text   string
		want, choices bool
	}{
		{"an item", "#[cfg(feature = \"cuda\")]\nmod gpu;", true, false},
		{"an expression", `if cfg!(feature = "cuda") { 1 } else { 2 }`, false, false},
		{"behind an address in a string", "let a = \"http://x\"; #[cfg(feature = \"cuda\")] run();", true, false},
		{"behind a quote as a character", "let a = '\"'; #[cfg(feature = \"cuda\")] run();", true, false},
		{"behind an escaped quote as a character", "let a = '\\''; let b = '\"'; #[cfg(feature = \"cuda\")] run();", true, false},
		{"behind a lifetime", "fn f<'a>(x: &'a str) {}\n#[cfg(feature = \"cuda\")] mod gpu;", true, false},
		{"behind a raw string", "let a = r#\"a \" b\"#; #[cfg(feature = \"cuda\")] run();", true, false},
		{"a line comment", `// #[cfg(feature = "cuda")]`, false, false},
		{"a block comment", "/* one\n/* cfg(feature = \"cuda\") */\n*/ fn main() {}", false, false},
		{"documentation of the file", "/*! With `cfg(feature = \"cuda\")` it is fast. */\nfn main() {}", false, false},
		{"a string", `println!("build with cfg(feature = \"cuda\")");`, false, false},
		{"a raw string", "println!(r#\"cfg(feature = \"cuda\")\"#);", false, false},
		{"a module of tests", "#[cfg(test)]\nmod tests {\n fn f() { if cfg!(feature = \"cuda\") { } }\n}\nfn main() {}", false, false},
		{
			"behind a module of tests",
			"#[cfg(test)]\nmod tests {\n fn f() { let a = \"}\"; }\n}\n#[cfg(feature = \"cuda\")]\nmod gpu;",
			true, false,
		},
		{"a compile_error", "#[cfg(feature = \"cuda\")]\ncompile_error!(\"no\");", false, false},
		{"an expression where choices count", `if cfg!(feature = "cuda") { nvcc() }`, true, true},
		{"with a feature that is on", `#[cfg(all(feature = "cuda", feature = "on"))] mod gpu;`, true, false},
		{"with a feature that is off", `#[cfg(all(feature = "cuda", feature = "ml"))] mod gpu;`, false, false},
		{"without a feature that is off", `#[cfg(all(not(feature = "ml"), feature = "cuda"))] mod gpu;`, true, false},
		{"or a feature that is on", `#[cfg(any(feature = "cuda", feature = "on"))] mod gpu;`, false, false},
		{"another system", `#[cfg(all(feature = "cuda", target_os = "macos"))] mod gpu;`, false, false},
		{"not another system", `#[cfg(all(feature = "cuda", not(target_os = "macos"), unix))] mod gpu;`, true, false},
		{"another family", `#[cfg(all(windows, feature = "cuda"))] mod gpu;`, false, false},
		{"a condition that is not known", `#[cfg(all(feature = "cuda", has_nvcc, target_arch = "x86_64"))] mod gpu;`, true, false},
		{"only for tests", "#[cfg(all(test, feature = \"cuda\"))]\nfn gpu() {}", false, false},
		{"over lines", "#[cfg(all(\n  feature = \"cuda\",\n  feature = \"ml\",\n))]\nmod gpu;", false, false},
		{"without it", `#[cfg(not(feature = "cuda"))] mod cpu;`, true, false},
		{"a branch of cfg_if", `cfg_if! { if #[cfg(feature = "cuda")] { mod gpu; } }`, true, false},
		{"a branch of cfg_select", `cfg_select! { feature = "cuda" => { mod gpu; } _ => {} }`, true, false},
		{"an attribute", `#[cfg_attr(feature = "cuda", allow(dead_code))] fn f() {}`, false, false},
		{"another file", `#[cfg_attr(feature = "cuda", path = "gpu.rs")] mod imp;`, true, false},
		{"a library", `#[cfg_attr(feature = "cuda", link(name = "cudart"))] extern "C" {}`, true, false},
		{"another feature", `#[cfg(feature = "cuda-extra")] mod gpu;`, false, false},
	}
	for _, tt := range tests {
		if got := gatesCode(tt.text, testOf("cuda"), Build{[]string{"cuda", "on"}, "linux", tt.choices}); got != tt.want {
			t.Errorf("%s: got %v of\n%s\nsearched as\n%s", tt.story, got, tt.text, code(tt.text, "cuda"))
		}
	}
}

func FuzzCode(f *testing.F) {
	for _, s := range []string{`'`, `'\`, `r#"`, `/*/*`, `"\`, "#[cfg(test)] mod t {", `b'x' r"`, `#[cfg(all(feature = "cuda"`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got := code(text, "cuda")
		if len(got) != len(text) || strings.Count(got, "\n") != strings.Count(text, "\n") {
			t.Errorf("%q became %q", text, got)
		}
		gatesCode(text, testOf("cuda"), Build{})
	})
}
