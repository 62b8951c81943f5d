package features

import "testing"

// TestMacrosThatGate: a macro of the package's own tests a feature where it is called, and nowhere else.
func TestMacrosThatGate(t *testing.T) {
	const (
		taken  = "macro_rules! cfg_feature { ($name:literal, $($item:item)*) => { $(#[cfg(feature = $name)] $item)* } }\n"
		around = "macro_rules! cuda_only { ($($item:item)*) => { $( #[cfg(feature = \"cuda\")] $item )* } }\n"
	)
	tests := []struct {
		story string
		files []string
		want  bool
	}{
		{"the name is an argument", []string{taken + `cfg_feature!("cuda", fn f() {});`}, true},
		{"the name is another's", []string{taken + `cfg_feature!("metal", fn f() {});`}, false},
		{"the word stands in what is gated by another", []string{taken + `cfg_feature!("metal", fn f() { println!("cuda"); });`}, false},
		{"the word is an argument of another place", []string{"macro_rules! only { ($name:literal, $label:literal, $i:item) => { #[cfg(feature = $name)] $i } }\n" + `only!("metal", "cuda", fn f() {});`}, false},
		{"defined in one file, called in another", []string{`mod macros; cfg_feature!{"cuda", mod gpu;}`, taken}, true},
		{"by its path", []string{`crate::cfg_feature! { "cuda", mod gpu; }`, taken}, true},
		{"a list of names", []string{"macro_rules! any_of { ([$($n:literal),*] $i:item) => { #[cfg(any($(feature = $n),*))] $i } }\n" + `any_of!(["metal", "cuda"] mod gpu;);`}, true},
		{"as an expression", []string{"macro_rules! has { ($n:tt) => { cfg!(feature = $n) } }\n" + `fn main() { if has!("cuda") { } }`}, true},
		{"a macro that only prints the word", []string{"macro_rules! say { ($n:literal) => { println!($n) } }\n" + `fn main() { say!("cuda") }`}, false},
		{"around items, called", []string{around + "cuda_only! { mod gpu; }"}, true},
		{"around items, called in another file", []string{around, "crate::cuda_only! {\n mod gpu;\n}"}, true},
		{"around items, never called", []string{around + "fn main() {}"}, false},
		{"around nothing", []string{around + "cuda_only! {}"}, false},
		{"called in a comment", []string{around + "// cuda_only! { mod gpu; }\nfn main() {}"}, false},
		{"called in a module of tests", []string{around + "#[cfg(test)]\nmod tests { cuda_only! { fn f() {} } }"}, false},
		{"without arguments", []string{"macro_rules! kernels { () => { #[cfg(feature = \"cuda\")] mod kernels; } }\nkernels!();"}, true},
		{"one that only refuses", []string{"macro_rules! refuse { () => {\n#[cfg(feature = \"cuda\")]\ncompile_error!(\"no\");\n} }\nrefuse!();"}, false},
		{"another arm", []string{"macro_rules! on { (metal, $i:item) => { #[cfg(feature = \"metal\")] $i }; (cuda, $i:item) => { #[cfg(feature = \"cuda\")] $i }; }\non!(metal, fn f() {});"}, false},
		{"its arm", []string{"macro_rules! on { (metal, $i:item) => { #[cfg(feature = \"metal\")] $i }; (cuda, $i:item) => { #[cfg(feature = \"cuda\")] $i }; }\non!(cuda, fn f() {});"}, true},
		{"one that calls another with the name", []string{"macro_rules! cuda { ($($i:item)*) => { cfg_feature!(\"cuda\", $($i)*); } }\n" + taken + "cuda! { mod gpu; }"}, true},
		{"one that calls another with another name", []string{"macro_rules! metal { ($($i:item)*) => { cfg_feature!(\"metal\", $($i)*); } }\n" + taken + "metal! { mod gpu; }"}, false},
		{"one that hands the name on", []string{"macro_rules! part { ($f:literal, $i:item) => { cfg_feature!($f, $i); } }\n" + taken + `part!("cuda", mod gpu;);`}, true},
		{"one that stands behind a brace in a character", []string{around + "const OPEN: char = '{';\ncuda_only! { mod gpu; }"}, true},
		{"the definition itself is gated", []string{"#[cfg(feature = \"cuda\")]\nmacro_rules! launch { () => { go() } }\nfn main() {}"}, true},
		{"code behind a definition", []string{around + "#[cfg(feature = \"cuda\")]\nmod gpu;"}, true},
	}
	for _, tt := range tests {
		t.Run(tt.story, func(t *testing.T) {
			files := map[string]string{"/w/Cargo.toml": pkg("app", "[features]\ncuda = []\n"), "/w/src/main.rs": ""}
			for i, text := range tt.files {
				files["/w/src/"+string(rune('a'+i))+".rs"] = text
			}
			h := memHost(files)
			p, err := Load(h, "/w/Cargo.toml")
			if err != nil {
				t.Fatal(err)
			}
			v := newView(h, p, nil, nil, nil)
			if g := v.gate(p.Selected, "cuda", ""); g.any() != tt.want {
				t.Errorf("got %v of %q", g.Files, tt.files)
			}
		})
	}
}

// TestMacrosOfAnotherPackage: what a macro tests are the features of the package that calls it.
func TestMacrosOfAnotherPackage(t *testing.T) {
	for _, tt := range []struct {
		story, lib, main string
		want             bool
	}{
		{"exported", "#[macro_export]\nmacro_rules! cuda_only { ($i:item) => { #[cfg(feature = \"cuda\")] $i } }", "tools::cuda_only! { mod gpu; }", true},
		{"not exported", "macro_rules! cuda_only { ($i:item) => { #[cfg(feature = \"cuda\")] $i } }", "tools::cuda_only! { mod gpu; }", false},
		{"not called", "#[macro_export]\nmacro_rules! cuda_only { ($i:item) => { #[cfg(feature = \"cuda\")] $i } }", "fn main() {}", false},
		{"one of the same name of its own", "#[macro_export]\nmacro_rules! cuda_only { ($i:item) => { #[cfg(feature = \"cuda\")] $i } }", "macro_rules! cuda_only { ($i:item) => { $i } }\ncuda_only! { mod gpu; }", false},
	} {
		t.Run(tt.story, func(t *testing.T) {
			h := memHost(map[string]string{
				"/w/Cargo.toml":       pkg("app", "[features]\ncuda = []\n[dependencies]\ntools = { path = \"tools\" }\n"),
				"/w/src/main.rs":      tt.main,
				"/w/tools/Cargo.toml": pkg("tools", ""),
				"/w/tools/src/lib.rs": tt.lib,
			})
			p, err := Load(h, "/w/Cargo.toml")
			if err != nil {
				t.Fatal(err)
			}
			v := newView(h, p, nil, nil, nil)
			if g := v.gate(p.Selected, "cuda", "/w/src/main.rs"); g.any() != tt.want {
				t.Errorf("got %+v", g)
			}
		})
	}
}
