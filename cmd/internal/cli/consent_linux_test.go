package cli_test

import (
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/hosttest"
	"gpubuild/buildenv/hosttest/need"
)

// A planted repository names its own programs in one way. Each of them writes down that it ran.
type planted struct {
	story string
	file  string            // one of the repository's files; by default .cargo/config.toml
	text  string            // what it holds: @APP is the project, @REPO what is around it
	more  map[string]string // further files; a text that begins with "-> " makes a link
	env   []string          // of the user
	code  int               // of env, stale and doctor; 0: nothing runs, however they end
}

const refused = exit.Config

// plantings are the ways in which files of a repository lead gpubuild to a program. The toolkit and the compilers of the user are there, too.
func plantings() []planted {
	every := need.Has("long") // the same in more ways, and by more names
	list := []planted{
		{story: "nothing", text: "[env]\nX = '1'\n"},
		{story: "flags of the compiler, and variables of pip, CMake, rustc, shells and gpubuild", text: "[env]\n" +
			"CXXFLAGS = '-BAPP/evil -wrapper @APP/evil/x'\nPIP_PYTHON = '@APP/evil/python'\nCMAKE = '@APP/evil/cmake'\n" +
			"RUSTC = '@APP/evil/rustc'\nCARGO = '@APP/evil/cargo'\nLLVM_CONFIG_PATH = '@APP/evil/llvm-config'\n" +
			"ENV = '@APP/evil/x'\nBASH_ENV = '@APP/evil/x'\nGPUBUILD_CONFIG = '@APP/user.toml'\nGPUBUILD_CUDA = '@APP/cuda'\n" +
			"GPUBUILD_CACHE = '@APP/cache'\nGPUBUILD_CCBIN = '@APP/evil/g++'\nNVCC_APPEND_FLAGS = '-optf @APP/flags'\n",
			more: map[string]string{"app/user.toml": "trust = ['@APP']\ncuda = '@APP/cuda'\n", "app/flags": "-ccbin @APP/evil/g++\n"}},
		{story: "a wrapper in the flags of CXX", text: "[env]\nCXX = 'g++ -wrapper @APP/evil/x -BAPP/evil -specs=@APP/evil/specs'\n"},
		{story: "a launcher in front of the user's own compiler", text: "[env]\nCXX = '@APP/evil/ccache g++'\n"},
		{story: "PATH", text: "[env]\nPATH = { value = '@APP/evil', force = true }\n"},
		{story: "PATH that is relative", text: "[env]\nPATH = { value = 'evil', relative = true, force = true }\n"},
		{story: "libraries to load", text: "[env]\nLD_PRELOAD = '@APP/evil/x.so'\nGCC_EXEC_PREFIX = '@APP/evil/'\nCOMPILER_PATH = '@APP/evil'\n"},
		{story: "linkers, runners, rustdoc, aliases of verbs, credential providers and cargo's way to git", text: "[target.'cfg(all())']\n" +
			"linker = '@APP/evil/cc'\nrunner = ['@APP/evil/x', '-x']\n[target.x86_64-unknown-linux-gnu]\nrunner = '@APP/evil/x'\n" +
			"[build]\nrustdoc = '@APP/evil/rustdoc'\n[alias]\nenv = 'run'\nfeatures = ['run']\nstale = 'run'\ndoctor = 'run'\nb = 'run'\n" +
			"build = 'run'\n[registry]\nglobal-credential-providers = ['@APP/evil/x']\n[registries.e]\nindex = " +
			"'sparse+https://localhost:1/'\ncredential-provider = ['@APP/evil/x']\n[net]\ngit-fetch-with-cli = true\n"},
		{story: "places, commands of a workflow, a program to prove and a version for a toolkit", file: "gpubuild.toml", text: "[on.slurm]\n" +
			"args = ['--prolog=@APP/evil/x']\n[on.a]\ncommand = '@APP/evil/x'\n[ci]\ninstall = '@APP/evil/x'\nsetup = '@APP/evil/x'\n" +
			"[prove]\nargs = ['$(@APP/evil/x)']\nbin = '../../evil/x'\n[toolchain]\ncuda = '13.4'\n"},
		{story: "a CMake project", file: "CMakeLists.txt", text: "execute_process(COMMAND @APP/evil/x)\n"},
		{story: "programs in the working directory", file: "nvcc", text: "#!/bin/sh\necho >>@TOP/ran\n",
			env: []string{"PATH=.:bin::evil:PATH"}},
		{story: "a nvcc.profile", file: "nvcc.profile", text: "PATH += @APP/evil\nTOP = @APP/cuda\n"},
		{story: "git's filters and hooks", file: ".gitattributes", text: "* filter=evil diff=evil\n", more: map[string]string{
			"app/.git/config": "[core]\nfsmonitor = @APP/evil/x\nhooksPath = @APP/evil\npager = @APP/evil/x\n[filter \"evil\"]\nclean = @APP/evil/x\n" +
				"smudge = @APP/evil/x\nprocess = @APP/evil/x\n[diff \"evil\"]\ncommand = @APP/evil/x\ntextconv = @APP/evil/x\n",
		}},
		{story: "a pre-commit hook", file: ".git/hooks/pre-commit", text: "#!/bin/sh\necho >>@TOP/ran\n"},
	}
	ways := func(first int, all ...string) []string {
		if every {
			return all
		}
		return all[:first]
	}
	for n, name := range ways(2, "CUDA_HOME", "CUDA_PATH", "CUDA_ROOT", "CUDA_TOOLKIT_ROOT_DIR") {
		if every || n == 0 {
			list = append(list, planted{story: name, text: "[env]\n" + name + " = '@APP/cuda'\n", code: refused})
		}
		if every || n == 1 {
			list = append(list, planted{story: name + " that is forced", text: "[env]\n" + name + " = { value = 'cuda', relative = true, force = " +
				"true }\n", code: refused})
		}
	}
	for _, name := range []string{"NVCC", "CUDACXX"} {
		list = append(list, planted{story: name, text: "[env]\n" + name + " = { value = 'cuda/bin/nvcc', relative = true }\n",
			code: refused})
	}
	for n, name := range []string{"CC", "CXX", "NVCC_CCBIN", "CUDAHOSTCXX", "HOST_COMPILER"} {
		for _, value := range [][]string{ways(4, "@APP/linked/g++", "@APP/hard", "ccache @APP/evil/g++", "../around/g++", "./evil/g++",
			"@APP/my tools/g++", "/proc/self/cwd/evil/g++", "\\u0040APP/evil/g++", "@APP/evil/g++", "evil/../evil/g++", "./my tools/g++",
			"@APP/ünï/g++", "@APP/dots./g++", "@APP/./evil//g++", "@APP/file", "../app/evil/g++", "@APP/ev=il/g++ -O2", "\\f./evil/g++\\f-O2",
			"./e:v/g++ -m64", "/proc/self/root@APP/evil/g++", "/dev/fd/../cwd/evil/g++", "@REPO/around/g++"), {"./evil/g++"}}[min(n, 1)] {
			code := refused
			switch { // a path with a space is one only if it is absolute and there
			case strings.HasPrefix(value, "./my"), strings.HasPrefix(value, "/dev"):
				code = 0
			}
			list = append(list, planted{story: name + " = " + value, text: "[env]\n" + name + " = \"" + value + "\"\n", code: code})
		}
	}
	for n, flags := range []string{"-ccbin @APP/evil/g++", "--compiler-bindir=@APP/evil", "-O2 -ccbin='@APP/evil/g++'",
		"-ccbin \\\"@APP/evil/g++\\\"", "--compiler-bindir @APP/evil/g++"} {
		for m, name := range []string{"NVCC_APPEND_FLAGS", "NVCC_PREPEND_FLAGS"} {
			if every || n == m {
				list = append(list, planted{story: name + " = " + flags, text: "[env]\n" + name + " = \"" + flags + "\"\n", code: refused})
			}
		}
	}
	cc := "[env]\nCC = '@APP/evil/gcc'\n"
	list = append(list,
		planted{story: "cargo's older file", file: ".cargo/config", text: cc, code: refused},
		planted{story: "a file around the project", file: "../.cargo/config.toml", text: cc, code: refused},
		planted{story: "a file outside that is included", text: "include = ['../../around/more.toml']\n",
			more: map[string]string{"around/more.toml": cc}, code: refused},
		planted{story: "a file behind a link", file: "real.toml", text: cc,
			more: map[string]string{"app/.cargo/config.toml": "-> ../real.toml"}, code: refused},
		planted{story: "a crate that cargo unpacked", text: "[env]\nCC = '@HOME/registry/src/i/evil-1.0.0/gcc'\n", code: refused},
		planted{story: "toolchain.cuda behind a link", file: "gpubuild.toml", text: "[toolchain]\ncuda = './tk'\n",
			more: map[string]string{"app/tk": "-> cuda"}, code: refused},
		planted{story: "toolchain.cuda in Cargo.toml", file: "Cargo.toml",
			text: plantedManifest + "[package.metadata.gpubuild.toolchain]\ncuda = 'cuda/../cuda'\n",
			code: refused},
		planted{story: "a link that leads in", text: "[env]\nCC = '@TOP/outside/gcc'\n",
			more: map[string]string{"../outside/gcc": "-> @APP/evil/gcc"}, code: refused},
	)
	if every {
		list = append(list,
			planted{story: "a file that is included", text: "include = ['more.toml']\n",
				more: map[string]string{"app/.cargo/more.toml": cc}, code: refused},
			planted{story: "a directory behind a link", file: "real/config.toml", text: cc,
				more: map[string]string{"app/.cargo": "-> real"}, code: refused},
			planted{story: "a checkout of cargo's", text: "[env]\nCC = '@HOME/git/checkouts/evil/gcc'\n", code: refused},
			planted{story: "toolchain.cuda", file: "gpubuild.toml", text: "[toolchain]\ncuda = '@APP/cuda'\n", code: refused},
			planted{story: "toolchain.cuda that is relative", file: "gpubuild.toml", text: "[toolchain]\ncuda = './cuda'\n", code: refused},
		)
	}
	return list
}

const plantedManifest = "[package]\nname = \"app\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[features]\ncuda = []\n"

// plant makes the repository, without the planted file.
func (p planted) plant(t *testing.T, top string) {
	t.Helper()
	app := filepath.Join(top, "repo", "app")
	marks := "#!/bin/sh\necho \"$0 $*\" >>" + top + "/ran\nexit 1\n"
	files := map[string]string{
		"app/Cargo.toml": plantedManifest, "app/Cargo.lock": "version = 3\n\n[[package]]\nname = \"app\"\nversion = \"0.1.0\"\n",
		".git/HEAD":       "",
		"app/src/main.rs": "fn main() {}\n", "app/kernel.cu": "__global__ void k() {}\n", "app/file": marks, "app/e:v/g++": marks,
		"app/build.rs":                          "fn main() { let _ = std::process::Command::new(\"nvcc\").arg(\"kernel.cu\").status(); }\n",
		"app/.git/HEAD":                         "ref: refs/heads/main\n",
		"../home/registry/src/i/evil-1.0.0/gcc": marks, "../home/registry/src/i/evil-1.0.0/g++": marks,
		"../home/git/checkouts/evil/gcc": marks, "../home/git/checkouts/evil/g++": marks,
	}
	programs := strings.Fields("gcc g++ nvcc ccache x cc c++ clang clang++ sccache python python3 pip cmake cicc ptxas git cargo rustc rustup nvidia-smi " +
		"post-index-change cargo-env ld as cc1plus sh")
	for dir, n := range map[string]int{"app": 5, "app/bin": 4, "app/evil": len(programs), "app/my tools": 2, "app/ünï": 2,
		"app/dots.": 2, "app/ev=il": 2,
		"app/e:v": 2, "around": 3, "app/cuda/bin": 3} {
		for _, name := range programs[:n] {
			files[dir+"/"+name] = marks
		}
	}
	for name := range p.more {
		delete(files, name)
	}
	files["app/linked"] = "-> evil"
	standinToolkit(t, filepath.Join(app, "cuda"), "13.4.92")
	p.write(t, top, files)
	noError(t, os.Link(filepath.Join(app, "evil", "g++"), filepath.Join(app, "hard")))
	p.write(t, top, p.more)
}

// put writes the planted file.
func (p planted) put(t *testing.T, top string) {
	t.Helper()
	p.write(t, top, map[string]string{filepath.Join("app", cmp.Or(p.file, ".cargo/config.toml")): p.text})
}

// write writes files of the repository.
func (p planted) write(t *testing.T, top string, files map[string]string) {
	t.Helper()
	app := filepath.Join(top, "repo", "app")
	fill := strings.NewReplacer("@APP", app, `\u0040APP`, `\u002f`+app[1:], "@REPO", filepath.Join(top, "repo"), "@TOP", top,
		"@HOME", filepath.Join(top, "home")).Replace
	for name, text := range files {
		path, text := filepath.Join(top, "repo", name), fill(text)
		noError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		var err error
		if to, is := strings.CutPrefix(text, "-> "); is {
			err = os.Symlink(to, path)
		} else {
			err = os.WriteFile(path, []byte(text), 0o755)
		}
		noError(t, err)
	}
}

// inspecting are command lines that only look; the first three judge what a repository's files say of tools.
var inspecting = [][]string{
	{"env", "--features", "cuda"}, {"stale", "--features", "cuda"}, {"doctor", "--features", "cuda"},
	{"features", "--features", "cuda"}, {"features", "--manifest-only", "--features", "cuda"}, {"features", "--json=out.json"},
	{"explain", "kernel.cu"}, {"explain", "LNK1181"}, {"scan", "file"}, {"toolchain", "list"}, {"toolchain", "use"},
	{"ci", "init", "github", "--stdout", "--install", "true"}, {"init", "--stdout"}, {"cache"}, {"version"}, {"help", "config"},
	{"completion", "bash"},
}

// TestNothingOfARepositoryRuns: whatever a repository's files name, no verb that only looks starts a program of it, and those that judge
// tools end with 30 where they would. GPUBUILD_TEST=long has every verb tried with every one.
func TestNothingOfARepositoryRuns(t *testing.T) {
	t.Parallel()
	need.Asked(t, "cargo", "cc")
	self, err := os.Executable()
	noError(t, err)
	program, verbs := binary(t), inspecting[:1]
	if need.Has("long") {
		verbs = inspecting
	}
	// One repository serves those that differ in the text of one file; the others have their own.
	var trees [][]planted
	alike := map[string]int{}
	for _, p := range plantings() {
		if at, has := alike[p.file]; p.more == nil && p.env == nil && has && (p.file == "" || p.file == "gpubuild.toml") {
			trees[at] = append(trees[at], p)
			continue
		}
		if p.more == nil && p.env == nil {
			alike[p.file] = len(trees)
		}
		trees = append(trees, []planted{p})
	}
	for _, tree := range trees {
		t.Run(tree[0].story, func(t *testing.T) {
			t.Parallel()
			top := hosttest.PlainDir(t)
			tree[0].plant(t, top)
			user := standinToolkit(t, filepath.Join(top, "user"), "13.4.92")
			noError(t, os.Mkdir(filepath.Join(top, "bin"), 0o755))
			noError(t, os.Symlink(self, filepath.Join(top, "bin", "standin-nvcc")))
			for _, p := range tree {
				p.put(t, top)
				for _, verb := range verbs {
					p.inspect(t, top, user, program, verb)
				}
			}
		})
	}
}

// inspect runs a verb in the planted repository: no program of it runs, and what judges tools ends with 30 where it would.
func (p planted) inspect(t *testing.T, top, user, program string, verb []string) {
	t.Helper()
	c := exec.Command(program, verb...)
	c.Dir = filepath.Join(top, "repo", "app")
	path := filepath.Join(top, "bin") + ":" + filepath.Join(user, "bin") + ":" + userPATH
	for _, e := range os.Environ() {
		if name, _, _ := strings.Cut(e, "="); !strings.HasPrefix(name, "CUDA") && !strings.HasPrefix(name, "NVCC") && name != "CC" && name != "CXX" {
			c.Env = append(c.Env, e)
		}
	}
	c.Env = append(c.Env, "PATH="+path, "CARGO_NET_OFFLINE=true", "GPUBUILD_CACHE="+filepath.Join(top, "cache"),
		"CARGO_HOME="+filepath.Join(top, "home"))
	if strings.Contains(p.text, "\nPATH = ") { // cargo itself, unless rustup's proxy starts it, finds rustc on the PATH of an [env] table (SECURITY.md)
		c.Env = append(c.Env, "RUSTC="+need.Tool(t, "rustc"))
	}
	for _, e := range p.env {
		c.Env = append(c.Env, strings.Replace(e, ":PATH", ":"+path, 1))
	}
	out, _ := c.CombinedOutput()
	if ran, err := os.ReadFile(filepath.Join(top, "ran")); err == nil {
		t.Fatalf("%s: %q ran %s\n%s", p.story, verb, ran, out)
	}
	judges := verb[0] == "env" || verb[0] == "stale" || verb[0] == "doctor"
	if code := c.ProcessState.ExitCode(); judges && (code == refused) != (p.code == refused) {
		t.Errorf("%s: %q: exit code %d\n%s", p.story, verb, code, out)
	}
}

// TestNoFilterOfGitRuns: a result says of which commit it is, and a clone's own configuration of git, which an archive brings, runs nothing.
func TestNoFilterOfGitRuns(t *testing.T) {
	t.Parallel()
	need.Asked(t, "cargo", "git")
	dir := t.TempDir()
	mark := filepath.Join(dir, "ran")
	writeFiles(t, dir, map[string]string{"Cargo.toml": plantedManifest, "src/main.rs": "fn main() {}\n", ".gitattributes": "* filter=evil\n",
		"Cargo.lock": "version = 3\n\n[[package]]\nname = \"app\"\nversion = \"0.1.0\"\n", "evil": "#!/bin/sh\necho >>" + mark + "\ncat\n"})
	git := func(args ...string) {
		t.Helper()
		succeeds(t, exec.Command("git", append([]string{"-C", dir, "-c", "user.name=a", "-c", "user.email=a@b"}, args...)...))
	}
	git("init", "-q")
	git("add", ".")
	git("commit", "-qm", "a")
	for _, key := range []string{"filter.evil.clean", "filter.evil.process", "core.fsmonitor", "filter.evil.required"} {
		git("config", key, filepath.Join(dir, "evil"))
	}
	git("config", "filter.evil.required", "true")
	writeFiles(t, dir, map[string]string{"src/main.rs": "fn main() {}\n"})
	c := exec.Command(binary(t), "features", "--manifest-only", "--json=out.json")
	c.Dir, c.Env = dir, append(os.Environ(), "GPUBUILD_CACHE="+filepath.Join(t.TempDir(), "cache"), "GITHUB_ACTIONS=", "GITLAB_CI=")
	out, err := c.CombinedOutput()
	if exists(mark) {
		t.Errorf("a filter ran: %v\n%s", err, out)
	}
	if text, _ := os.ReadFile(filepath.Join(dir, "out.json")); !strings.Contains(string(text), `"commit"`) {
		t.Errorf("no commit in %s", text)
	}
}
