package source

import (
	"strings"
	"testing"

	"gpubuild/buildenv/hosttest"
)

// TestScriptText says what counts as a build script's own doing: its modules, what it uses of a helper crate, and what it runs; not the rest.
func TestScriptText(t *testing.T) {
	const helper = "use std::process::Command;\nconst NVCC: &str = \"nvcc\";\npub fn kernels() { run(NVCC) }\nfn run(p: &'static str) { Command::new(p); }\n" +
		"pub fn link() { println!(\"cargo:rustc-link-lib=cudart\"); }\npub fn stamp() {}\n"
	for _, tt := range []struct {
		story string
		files map[string]string
		want  string // what is seen, and in which file
	}{
		{"nothing", map[string]string{"build.rs": "fn main() {}"}, ""},
		{"a module", map[string]string{"build.rs": "mod cuda;\nfn main() { cuda::go() }", "cuda.rs": "pub fn go() { run(\"nvcc\") }"}, "nvcc in cuda.rs"},
		{"a module in a directory, by a path", map[string]string{"build.rs": "#[path = \"b/mod.rs\"]\nmod b;\nfn main() {}", "b/mod.rs": "pub mod c;", "b/c.rs": "nvcc"}, "nvcc in c.rs"},
		{"an included file", map[string]string{"build.rs": "include!(\"b/main.in\");", "b/main.in": "fn main() { run(\"nvcc\") }"}, "nvcc in main.in"},
		{"a file that is no module", map[string]string{"build.rs": "fn main() {}", "cuda.rs": "nvcc"}, ""},
		{"a helper that runs nvcc", map[string]string{"build.rs": "fn main() { helper::kernels() }"}, "nvcc in lib.rs"},
		{"a helper for something else", map[string]string{"build.rs": "fn main() { helper::stamp() }"}, ""},
		{"a helper that links", map[string]string{"build.rs": "fn main() { helper::link() }"}, "links in lib.rs"},
		{"a makefile", map[string]string{"build.rs": "fn main() { Command::new(\"make\").current_dir(\"k\"); }", "k/Makefile": "# nvcc\na:\n\t$(CUDA_HOME)/bin/nvcc a.cu\n"}, "nvcc in Makefile"},
		{"a makefile with a word on it only", map[string]string{"build.rs": "fn main() { Command::new(\"make\"); }", "Makefile": "# not by nvcc\na:\n\tcc a.c\n"}, ""},
		{"a makefile that nobody runs", map[string]string{"build.rs": "fn main() {}", "Makefile": "a:\n\tnvcc a.cu\n"}, ""},
		{"a shell script", map[string]string{"build.rs": "fn main() { Command::new(\"sh\").arg(\"k.sh\"); }", "k.sh": "nvcc a.cu"}, "nvcc in k.sh"},
		{"one outside of the package", map[string]string{"build.rs": "fn main() { Command::new(\"../k.sh\"); }", "../k.sh": "nvcc a.cu"}, ""},
		{"CUDA source that it names", map[string]string{"build.rs": "fn main() { Command::new(\"sh\").arg(\"k.cu\"); }", "k.cu": "// for nvcc 13"}, ""},
	} {
		files := map[string]string{"/w/helper/src/lib.rs": helper}
		for name, text := range tt.files {
			if up, ok := strings.CutPrefix(name, "../"); ok {
				files["/w/"+up] = text
				continue
			}
			files["/w/p/"+name] = text
		}
		v := NewReader(hosttest.Memory(files), "")
		s := v.TextOf(Script{Source: "/w/p/build.rs", Locals: []string{"/w/helper/src/lib.rs"}}, "/w/p")
		got := ""
		switch {
		case NamesNvcc(s.All):
			got = "nvcc in " + s.File(v, NamesNvcc)
		case LinksCUDA(s.All):
			got = "links in " + s.File(v, LinksCUDA)
		}
		if got != tt.want {
			t.Errorf("%s: %q, want %q\n%s", tt.story, got, tt.want, s.All)
		}
	}
	if got := strings.Join(Variables("\"CUDA_HOME\" $NVCC ${CUDA_PATH:-x} $(CUDNN_ROOT) %GPU_ARCH% see CUDA_NOTE \"CUDA is not here\""), " "); got != "CUDA_HOME CUDA_PATH CUDNN_ROOT GPU_ARCH NVCC" {
		t.Errorf("variables %s", got)
	}
}
