package source

import (
	"slices"
	"strings"
	"testing"

	"gpubuild/buildenv/hosttest"
)

// TestScriptText says what counts as a build script's own doing: its modules, what it uses of a helper crate, and what it runs; not the
// rest.
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
		{"a module by a path in one line", map[string]string{"build.rs": "#[path=\"b/x.rs\"] mod b;\nfn main() {}", "b/x.rs": "nvcc"}, "nvcc in x.rs"},
		{"one outside of the package, for a platform", map[string]string{"build.rs": "#[path = \"../x.rs\"]\n#[cfg(unix)]\npub mod b;", "../x.rs": "nvcc"}, "nvcc in x.rs"},
		{"a file included from the package's directory", map[string]string{
			"build.rs": "include!(concat!(env!(\"CARGO_MANIFEST_DIR\"), \"/../x.rs\"));", "../x.rs": "nvcc"}, "nvcc in x.rs"},
		{"a module that Python runs", map[string]string{"build.rs": "fn main() { Command::new(\"python3\").args([\"-m\", \"t.gen\"]); }", "t/gen.py": "run('nvcc')"}, "nvcc in gen.py"},
		{"an included file", map[string]string{"build.rs": "include!(\"b/main.in\");", "b/main.in": "fn main() { run(\"nvcc\") }"}, "nvcc in main.in"},
		{"a comment in the text", map[string]string{"build.rs": "/* once: nvcc,\n cc.cuda(true) */ fn main() { glob(\"k/*.c\"); }"}, ""},
		{"a module behind a comment", map[string]string{"build.rs": "use a::b;\n/* the kernels */ mod cuda;", "cuda.rs": "nvcc"}, "nvcc in cuda.rs"},
		{"a file that is no module", map[string]string{"build.rs": "fn main() {}", "cuda.rs": "nvcc"}, ""},
		{"a helper that runs nvcc", map[string]string{"build.rs": "fn main() { helper::kernels() }"}, "nvcc in lib.rs"},
		{"a helper for something else", map[string]string{"build.rs": "fn main() { helper::stamp() }"}, ""},
		{"a makefile", map[string]string{"build.rs": "fn main() { Command::new(\"make\").current_dir(\"k\"); }", "k/Makefile": "# nvcc\na:\n\t$(CUDA_HOME)/bin/nvcc a.cu\n"}, "nvcc in Makefile"},
		{"a makefile with a word on it only", map[string]string{"build.rs": "fn main() { Command::new(\"make\"); }", "Makefile": "# not by nvcc\na:\n\tcc a.c\n"}, ""},
		{"a makefile that nobody runs", map[string]string{"build.rs": "fn main() {}", "Makefile": "a:\n\tnvcc a.cu\n"}, ""},
		{"a shell script", map[string]string{"build.rs": "fn main() { Command::new(\"sh\").arg(\"k.sh\"); }", "k.sh": "nvcc a.cu"}, "nvcc in k.sh"},
		{"a script that a script reads", map[string]string{"build.rs": "fn main() { Command::new(\"t/k.sh\"); }", "t/k.sh": ". $(dirname $0)/common.sh", "t/common.sh": "nvcc a.cu"}, "nvcc in common.sh"},
		{"one outside of the package", map[string]string{"build.rs": "fn main() { Command::new(\"../k.sh\"); }", "../k.sh": "nvcc a.cu"}, "nvcc in k.sh"},
		{"make in a line of a shell", map[string]string{"build.rs": "fn main() { cmd!(\"sh\", \"-c\", \"make -C k\"); }", "k/Makefile": "include more.inc\n", "k/more.inc": "a:\n\tnvcc a.cu\n"}, "nvcc in more.inc"},
		{"a script that names itself and another twice", map[string]string{"build.rs": "fn main() { Command::new(\"sh\").arg(\"k.sh\"); }", "k.sh": ". k.sh; . l.sh; . l.sh", "l.sh": "nvcc a.cu"}, "nvcc in l.sh"},
		{"modules that name each other", map[string]string{"build.rs": "#[path = \"a.rs\"]\nmod a;", "a.rs": "#[path = \"build.rs\"]\nmod b;\n#[path = \"c.rs\"]\nmod c;", "c.rs": "nvcc"}, "nvcc in c.rs"},
		{"a binary file that it names", map[string]string{"build.rs": "fn main() { Command::new(\"sh\").arg(\"k.bin\"); }", "k.bin": "nvcc\x00"}, ""},
		{"a large file that it names", map[string]string{"build.rs": "fn main() { Command::new(\"sh\").arg(\"k.dat\"); }", "k.dat": "nvcc" + strings.Repeat(" ", 1<<18)}, ""},
		{"a log that it writes", map[string]string{"build.rs": "fn main() { Command::new(\"sh\").arg(\"k.log\"); }", "k.log": "nvcc"}, ""},
		{"a program of a whole path", map[string]string{"build.rs": "fn main() { Command::new(\"/w/k.sh\"); }", "../k.sh": "nvcc"}, "nvcc in k.sh"},
		{"a name with a variable before it", map[string]string{"build.rs": "fn main() { Command::new(\"{}/k.sh\"); }", "k.sh": "nvcc"}, "nvcc in k.sh"},
		{"a name behind a directory that is a variable", map[string]string{"build.rs": "fn main() { sh(\"run.sh\"); }", "run.sh": "$DIR/k.sh", "k.sh": "nvcc"}, "nvcc in k.sh"},
		{"a directory that CMake adds", map[string]string{"build.rs": "fn main() { cmake::Config::new(\"k\") }", "k/CMakeLists.txt": "add_subdirectory(sub)", "k/sub/CMakeLists.txt": "find_program(nvcc)"}, "nvcc in CMakeLists.txt"},
		{"CUDA source that it names", map[string]string{"build.rs": "fn main() { Command::new(\"sh\").arg(\"k.cu\"); }", "k.cu": "// for nvcc 13"}, ""},
		{"assembler that it names", map[string]string{"build.rs": "fn main() { cc(\"make\", \"k.S\", \"k.asm\"); }", "k.S": "/* for nvcc */", "k.asm": "; for nvcc"}, ""},
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
		for _, p := range s.parts {
			if got == "" && NamesNvcc(p.text) {
				got = "nvcc in " + v.h.Base(p.file)
			}
		}
		hosttest.Equal(t, got, tt.want, tt.story, s.All)
	}
}

// TestWords: whatever may be the name of a variable, wherever it is read.
func TestWords(t *testing.T) {
	t.Parallel()
	h := hosttest.Memory(map[string]string{
		"/w/p/build.rs": "mod m; env::var(\"CARGO_KERNEL_FLAGS\"); env::var_os(\"foo_dir\"); format!(\"{}_FLAGS\", x); // note NOT_THIS\n// A_COMMENT\n",
		"/w/p/m.rs":     "const N: &str = \"MODULE\";", "/w/p/sub/Makefile": "a:\n\tnvcc $(MK_FLAGS)", "/w/p/x/k.py": "os.getenv('py_c'); environ['py_d']",
		"/w/p/other.rs": "OTHER", "/w/p/target/k.sh": "TARGET_SH", "/w/p/built/CACHEDIR.TAG": "", "/w/p/built/k.sh": "BUILT_SH", "/w/p/notes.txt": "NOTES", "/w/p/node_modules/k.sh": "MODULES_SH", "/w/p/.hidden/k.sh": "HIDDEN_SH", "/w/p/c.cmake": "$ENV{CM_FLAGS}", "/w/p/more.mk": "$(MK_MORE)",
		"/w/p/deploy.sh": "$DEPLOY", "/w/k/src/lib.rs": "pub fn k() { env::var(\"HELPED\") }",
	})
	r := NewReader(h, "")
	got := strings.Join(r.Words(r.TextOf(Script{Source: "/w/p/build.rs", Locals: []string{"/w/k/src/lib.rs"}}, "/w/p"), "/w/p"), " ")
	if want := "CARGO_KERNEL_FLAGS CM_FLAGS DEPLOY ENV MK_FLAGS MK_MORE MODULE NOT_THIS _FLAGS foo_dir py_c py_d"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestSources: the files that count, by who names them.
func TestSources(t *testing.T) {
	t.Parallel()
	files := map[string]string{
		"/w/p/build.rs": `fn main() { Command::new("nvcc").arg("@flags.rsp").arg("--options-file=more.rsp").args(["-o", "k.ptx"]);
	Command::new("python3").args(["tools/gen.py"]); Command::new("bash").args(["-c", "nvcc -optf inline.rsp"]); Command::new("tools/run.sh");
	fs::write("count.txt", fs::read("count.txt")); nvcc.arg("-I/opt/one").arg("-I/opt/cuda/include"); read("/opt/three") }`,
		"/opt/one/a.h": "", "/opt/cuda/include/cuda.h": "", "/opt/three/a.h": "", "/w/two/b.h": "",
		"/w/p/tools/gen.py": "json.load(open('tools/params.json')); open(\"tools/out.txt\", 'w').write(open('tools/tmpl.cu.in')); subprocess.run(['tools/sub.py'])",
		"/w/p/tools/run.sh": "source tools/common.sh\nmake\nnvcc -I../two -I. k.cu\n",
	}
	files["/w/p/build.rs"] += `
	fn more() { Command::new("kgen").arg("sub dir/a b.txt").current_dir("deep"); read(kb::NUMBERS); read_dir("params"); read(format!("{}/Cargo.toml", dir)) }
	fn above() { read(root.join("..").join("shared").join("flags.txt")) }`
	files["/w/p/build.rs"] += `fn whole() { read("/opt/four/p.txt"); arg("-Xptxas=/opt/four/x.opt"); read("/usr/lib/os-release"); read("/proc/cpuinfo") }
	fn objects() { Command::new("ar").args(["crs", "libk.a", "pre/x.o"]); nvcc.args(["-dlink", "-Llibs", "-ldev"]) }`
	files["/w/p/pre/x.o"], files["/w/p/libs/libdev.a"] = "", ""
	files["/opt/four/p.txt"], files["/opt/four/x.opt"], files["/usr/lib/os-release"], files["/proc/cpuinfo"] = "", "", "", ""
	files["/w/shared/flags.txt"], files["/w/flags.txt"], files["/w/shared/other.txt"] = "", "", ""
	files["/w/kb/src/lib.rs"] = "pub const NUMBERS: &str = \"numbers\";\npub const OTHER: &str = \"other\";\n"
	files["/w/p/tools/gen.py"] += "\nimport gen_common, os\nfrom lib.more import x\n"
	files["/w/p/tools/gen_common.py"] = "open('deep.txt')"
	files["/w/p/build.rs"] += `fn others() { cargo.args(["run", "--manifest-path", "../gen/Cargo.toml"]); perl.arg("perl/gen.pl") }`
	files["/w/gen/Cargo.toml"], files["/w/gen/src/main.rs"], files["/w/gen/src/m.rs"] = "", "mod m;\n", "fn x() { read(\"gen.txt\") }"
	files["/w/p/perl/gen.pl"], files["/w/p/perl/Tables.pm"], files["/w/p/gen.txt"] = "use Tables;", "", ""
	for _, name := range []string{"numbers", "other", "Cargo.toml", "params/one", "params/lib.rs", "sub dir/a b.txt", "deep/deep.txt", "tools/lib/more.py",
		"flags.rsp", "more.rsp", "inline.rsp", "unused.rsp", "count.txt", "k.ptx", "tools/tmpl.cu.in", "tools/params.json", "tools/out.txt",
		"tools/sub.py", "tools/common.sh", "tools/other.py"} {
		files["/w/p/"+name] = ""
	}
	r := NewReader(hosttest.Memory(files), "")
	script := r.TextOf(Script{Source: "/w/p/build.rs", Locals: []string{"/w/kb/src/lib.rs"}}, "/w/p")
	got := append(script.Files, script.Dirs...)
	slices.Sort(got)
	want := "/opt/four/p.txt /opt/four/x.opt /w/flags.txt /w/gen/Cargo.toml /w/gen/src/m.rs /w/gen/src/main.rs Cargo.toml count.txt deep deep/deep.txt flags.rsp gen.txt inline.rsp k.ptx libs more.rsp numbers params perl/Tables.pm perl/gen.pl pre/x.o sub dir/a b.txt " +
		"tools/common.sh tools/gen.py tools/gen_common.py tools/lib/more.py tools/out.txt tools/params.json tools/run.sh tools/sub.py tools/tmpl.cu.in " +
		"/w/shared /w/shared/flags.txt /w/two"
	hosttest.Equal(t, strings.ReplaceAll(strings.Join(got, " "), "/w/p/", ""), want)
}
