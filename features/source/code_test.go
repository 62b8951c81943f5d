package source

import "testing"

// TestOnlyCodeGates says what counts as code of a package's own, and what only speaks of it.
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
		{
			"behind a module of tests",
			"#[cfg(test)]\nmod tests {\n fn f() { let a = \"}\"; }\n}\n#[cfg(feature = \"cuda\")]\nmod gpu;",
			true,
		},
		{"behind a module of tests on one line", "#[cfg(test)]\nmod tests {}\n#[cfg(feature = \"cuda\")]\nmod gpu {\n}\n", true},
		{"a compile_error", "#[cfg(feature = \"cuda\")]\ncompile_error!(\"no\");", true},
		{"an expression where choices count", `if cfg!(feature = "cuda") { nvcc() }`, true},
		{"with a feature that is on", `#[cfg(all(feature = "cuda", feature = "on"))] mod gpu;`, true},
		{"with a feature that is off", `#[cfg(all(feature = "cuda", feature = "ml"))] mod gpu;`, true},
		{"without a feature that is off", `#[cfg(all(not(feature = "ml"), feature = "cuda"))] mod gpu;`, true},
		{"or a feature that is on", `#[cfg(any(feature = "cuda", feature = "on"))] mod gpu;`, true},
		{"another system", `#[cfg(all(feature = "cuda", target_os = "macos"))] mod gpu;`, true},
		{"not another system", `#[cfg(all(feature = "cuda", not(target_os = "macos"), unix))] mod gpu;`, true},
		{"another family", `#[cfg(all(windows, feature = "cuda"))] mod gpu;`, true},
		{"a condition that is not known", `#[cfg(all(feature = "cuda", has_nvcc, target_arch = "x86_64"))] mod gpu;`, true},
		{"only for tests", "#[cfg(all(test, feature = \"cuda\"))]\nfn gpu() {}", true},
		{"over lines", "#[cfg(all(\n  feature = \"cuda\",\n  feature = \"ml\",\n))]\nmod gpu;", true},
		{"without it", `#[cfg(not(feature = "cuda"))] mod cpu;`, true},
		{"a branch of cfg_if", `cfg_if! { if #[cfg(feature = "cuda")] { mod gpu; } }`, true},
		{"a branch of cfg_select", `cfg_select! { feature = "cuda" => { mod gpu; } _ => {} }`, true},
		{"an attribute", `#[cfg_attr(feature = "cuda", allow(dead_code))] fn f() {}`, true},
		{"another file", `#[cfg_attr(feature = "cuda", path = "gpu.rs")] mod imp;`, true},
		{"a library", `#[cfg_attr(feature = "cuda", link(name = "cudart"))] extern "C" {}`, true},
		{"another feature", `#[cfg(feature = "cuda-extra")] mod gpu;`, false},
	}
	for _, tt := range tests {
		if got := testOf("cuda").MatchString(code(tt.text)); got != tt.want {
			t.Errorf("%s: got %v of\n%s\nsearched as\n%s", tt.story, got, tt.text, code(tt.text))
		}
	}
}
