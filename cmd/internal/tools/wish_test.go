package tools

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gpubuild/buildenv/hosttest"
	"gpubuild/buildenv/local"
	"gpubuild/cmd/internal/config"
	"gpubuild/cmd/internal/console"
	"gpubuild/cmd/internal/session"
	"gpubuild/features"
	"gpubuild/features/manifest"
	"gpubuild/gpu"
	"gpubuild/toolchain"
	"gpubuild/toolchain/cargo"
	"gpubuild/toolchain/cuda"
	"gpubuild/toolchain/cudnn"
)

// fetchedKit is a toolkit that gpubuild fetched, in a planted machine's cache.
func fetchedKit(cache, version string) string {
	root := cache + "/toolkits/cuda-" + version
	return kit(root, version) + "-- " + root + "/bin/ptxas +x --\np\n-- " + root + "/bin/fatbinary +x --\nf\n-- @empty --\n" + root + "/bin/cudafe++\n" + root + "/bin/nvcc.profile\n-- " +
		root + "/gpubuild-toolkit.json --\n{\"schema\": 2, \"cuda\": \"" + version + "\", \"release\": \"" + version + ".0\", \"parts\": [{\"name\": \"build\"}]}\n"
}

// TestWishOf: the strongest word counts: a flag, the environment, the project, the user's own configuration.
func TestWishOf(t *testing.T) {
	t.Parallel()
	const mine, user = "-- @env --\nPATH=/usr/bin\nGPUBUILD_CONFIG=/mine.toml\n", "-- /mine.toml --\ncuda = \"12.4\"\n"
	project := config.Config{CUDA: config.Value[string]{Value: "13.0", Origin: "gpubuild.toml"}, Arch: config.Value[string]{Value: "75", Origin: "gpubuild.toml"}}
	tables := func(name, value string) []cargo.Given {
		return []cargo.Given{{Name: name, Value: value, Origin: ".cargo/config.toml"}}
	}
	for _, tt := range []struct {
		story, text string
		config      config.Config
		tables      []cargo.Given
		o           Options
		want        string // toolkit (origin), architecture (origin), what is looked at; or the error
	}{
		{"nothing", "", config.Config{}, nil, Options{}, " () () "},
		{"a flag", mine + "GPUBUILD_CUDA=12.1\n" + user, project, nil, Options{Prefix: "--gpu-", Toolkit: "13.4", Arch: "90"}, "13.4 (--gpu-toolkit) 90 (--gpu-arch) "},
		{"a variable", mine + "GPUBUILD_CUDA=12.1\nGPUBUILD_ARCH=80\n" + user, project, nil, Options{}, "12.1 (GPUBUILD_CUDA) 80 (GPUBUILD_ARCH in the environment) "},
		{"the project", mine + user, project, nil, Options{}, "13.0 (gpubuild.toml) 75 (gpubuild.toml) "},
		{"the user's own", mine + user, config.Config{}, nil, Options{}, "12.4 (gpubuild toolchain use) () "},
		{"a file that is gone", mine, config.Config{}, nil, Options{}, "names this file"},
		{"a file that is gone, and a flag", mine, config.Config{}, nil, Options{Prefix: "--", Toolkit: "13.4"}, "13.4 (--toolkit) () "},
		{"an [env] table's architecture", "", config.Config{}, tables("CUDA_COMPUTE_CAP", "70"), Options{}, " () 70 (CUDA_COMPUTE_CAP in an [env] table of cargo's configuration) "},
		{"the same in the environment", "-- @env --\nCUDA_COMPUTE_CAP=70\n", config.Config{}, tables("CUDA_COMPUTE_CAP", "70"), Options{}, " () 70 (CUDA_COMPUTE_CAP in the environment) "},
		{"a root", "", config.Config{}, nil, Options{Prefix: "--", Toolkit: "./cuda"}, "/r/app/cuda (--toolkit) () /r/app/cuda by --toolkit"},
		{"one that was fetched", fetchedKit("/cache", "13.4"), config.Config{}, nil, Options{}, " () () /cache/toolkits/cuda-13.4 by gpubuild's cache"},
		{"that is in use", fetchedKit("/cache", "12.4") + mine + user, config.Config{}, nil, Options{}, "12.4 (gpubuild toolchain use) () /cache/toolkits/cuda-12.4 by gpubuild's cache, gpubuild toolchain use"},
		{"another one is in use", fetchedKit("/cache", "13.4") + mine + user, config.Config{}, nil, Options{}, "12.4 (gpubuild toolchain use) () /cache/toolkits/cuda-13.4 by gpubuild's cache"},
		{"asked for by a flag, in use by nobody", fetchedKit("/cache", "12.4"), config.Config{}, nil, Options{Prefix: "--", Toolkit: "12.4"}, "12.4 (--toolkit) () /cache/toolkits/cuda-12.4 by gpubuild's cache"},
		{"a type check without one", "", config.Config{}, nil, Options{Toolkit: None}, "toolkit=none is for check"},
		{"a compiler by path", gcc, config.Config{}, nil, Options{CCBin: "/usr/bin/g++"}, " () () "},
		{"a directory of compilers", gcc, config.Config{}, nil, Options{CCBin: "/usr/bin"}, " () () "},
		{"a compiler that is gone", gcc, config.Config{}, nil, Options{Prefix: "--gpu-", CCBin: "/gone/g++"}, "--gpu-ccbin /gone/g++: it does not exist"},
		{"a compiler by name", gcc + "-- @env --\nPATH=/usr/bin\n", config.Config{}, nil, Options{CCBin: "g++"}, " () () "},
		{"one that is not on PATH", gcc + "-- @env --\nPATH=/usr/bin\n", config.Config{}, nil, Options{Prefix: "--", CCBin: "g++-9"}, "--ccbin g++-9: it is not on PATH"},
	} {
		h := hostOf(t, tt.text)
		s := &session.Session{Machine: &session.Machine{Host: h, CacheDir: "/cache", Shell: &console.Shell{}}, Config: tt.config}
		env := h.Env
		for _, g := range tt.tables {
			env = env.Set(g.Name, g.Value)
		}
		w, err := wishOf(s, env, tt.tables, tt.o)
		got := fmt.Sprintf("%s (%s) %s (%s) ", w.CUDA, w.CUDAOrigin, w.Arch, w.ArchOrigin)
		for _, c := range w.extra {
			got += c.Root + " by " + c.Origin
		}
		if strings.Replace(got, "  (", " (", 1) != tt.want && err == nil || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %q, %v; want %q", tt.story, got, err, tt.want)
		}
		if file := w.EnvFiles["CUDA_COMPUTE_CAP"]; (file != "") != (tt.tables != nil && !strings.Contains(tt.text, "CAP=")) {
			t.Errorf("%s: the variable is of the file %q", tt.story, file)
		}
	}
	h := hostOf(t, "")
	h.OS = "windows"
	if _, err := wishOf(&session.Session{Machine: &session.Machine{Host: h}}, h.Env, nil, Options{CCBin: "14.29"}); err != nil { // a toolset
		t.Error(err)
	}
}

// TestDefaultToolkit: which toolkit builds try first where no project is, and who chose it.
func TestDefaultToolkit(t *testing.T) {
	t.Parallel()
	const mine = "-- @env --\nGPUBUILD_CONFIG=/mine.toml\n"
	all := kit("/usr/local/cuda-12.4", "12.4") + kit("/usr/local/cuda-13.4", "13.4")
	for _, tt := range []struct{ story, text, root, by, says string }{
		{"nobody", all, "/usr/local/cuda-13.4", "", ""},
		{"a variable", all + "-- @env --\nGPUBUILD_CUDA=12.4\n", "/usr/local/cuda-12.4", "GPUBUILD_CUDA", ""},
		{"the user's own", all + mine + "-- /mine.toml --\ncuda = \"12.4\"\n", "/usr/local/cuda-12.4", "gpubuild toolchain use", ""},
		{"a directory", all + kit("/opt/cuda-12.1", "12.1") + "-- @env --\nGPUBUILD_CUDA=/opt/cuda-12.1\n", "/opt/cuda-12.1", "GPUBUILD_CUDA", ""},
		{"a relative one", all + kit("/r/app/cuda", "12.1") + "-- @env --\nGPUBUILD_CUDA=./cuda\n", "/r/app/cuda", "GPUBUILD_CUDA", ""},
		{"one that is not here", all + "-- @env --\nGPUBUILD_CUDA=11.8\n", "", "GPUBUILD_CUDA", "GPUBUILD_CUDA asks for CUDA toolkit 11.8, and no usable one here is that"},
		{"no toolkit", "", "", "", ""},
		{"one to be fetched", "-- @env --\nGPUBUILD_CUDA=fetch\n", "", "GPUBUILD_CUDA", ""},
		{"a file that is gone", all + mine, "error", "", ""},
	} {
		m, _, said := planted(t, tt.text)
		_, root, by, err := Default(m, func(extra []cuda.Candidate) []cuda.Toolkit { return cuda.Find(m.Host, extra) })
		if err != nil {
			root = "error"
		}
		if root != tt.root || by != tt.by || !strings.Contains(said.String(), tt.says) || tt.says == "" && said.Len() > 0 {
			t.Errorf("%s: %q by %q, %q, %v", tt.story, root, by, said, err)
		}
	}
}

// TestFirst: the toolkit of verbs that build nothing, where somebody chose one.
func TestFirst(t *testing.T) {
	t.Parallel()
	all := kit("/usr/local/cuda-12.4", "12.4") + kit("/usr/local/cuda-13.4", "13.4") + kit("/r/app/cuda", "12.1")
	for _, tt := range []struct{ story, text, flag, project, want string }{
		{"nobody", all, "", "", "none"},
		{"a flag", all, "12.4", "", "/usr/local/cuda-12.4"},
		{"a directory", all, "/usr/local/cuda-12.4", "", "/usr/local/cuda-12.4"},
		{"a variable", all + "-- @env --\nGPUBUILD_CUDA=12.4\n", "", "", "/usr/local/cuda-12.4"},
		{"fetch", all, "fetch", "", "toolkit=fetch is for verbs that build | gpubuild toolchain install"},
		{"fetch in a variable", all + "-- @env --\nGPUBUILD_CUDA=fetch\n", "", "", "none"},
		{"a version that is not here", all, "11.8", "", "listed above, or: gpubuild toolchain install 11.8"},
		{"a directory that is none", all, "/gone", "", "there is no CUDA toolkit /gone | gpubuild toolchain list"},
		{"the repository's", all, "", "/r/app/cuda", "/r/app/cuda is in the repository"},
		{"a file that is gone", all + "-- @env --\nGPUBUILD_CONFIG=/gone\n", "", "", "names this file"},
		{"trust in a file that is gone", all + "-- @env --\nGPUBUILD_CONFIG=/gone\n", "", "/r/app/cuda", "names this file"},
	} {
		m, _, _ := planted(t, tt.text)
		s := &session.Session{Machine: m, Project: &manifest.Project{Root: "/r/app"}, Config: config.Config{CUDA: config.Value[string]{Value: tt.project, Origin: "gpubuild.toml"}}}
		found, err := First(t.Context(), s, tt.flag)
		got := "none"
		if found != nil {
			got = found.Root
		}
		if err != nil {
			hint, _ := err.(interface{ Hint() string })
			got, _, _ = strings.Cut(err.Error(), "\n")
			got += " | " + hint.Hint()
		}
		if err != nil && !strings.Contains(strings.Replace(got, " (--toolkit)", "", 1), tt.want) || err == nil && got != tt.want {
			t.Errorf("%s: %q, want %q", tt.story, got, tt.want)
		}
	}
}

// TestStarted: a toolkit whose nvcc does not start, or prints no release, is of no use.
func TestStarted(t *testing.T) {
	t.Parallel()
	for says, want := range map[string]string{fmt.Sprintf(release, "12.4"): "", "hello": "its nvcc does not work: `nvcc --version` names no release", "!": "its nvcc does not work: it cannot be started"} {
		m, run, _ := planted(t, kit("/opt/cuda", "12.4")+kit("/usr/local/cuda-12.4", "12.4")+"-- @env --\nCUDA_HOME=/opt/cuda\nCUDA_PATH=/gone\n")
		if run.of["/opt/cuda/bin/nvcc"] = says; says == "!" {
			delete(run.of, "/opt/cuda/bin/nvcc")
		}
		problems := map[string]string{}
		for _, f := range Started(t.Context(), m)(nil) {
			problems[f.Root] = f.Problem
		}
		if problems["/opt/cuda"] != want || problems["/usr/local/cuda-12.4"] != "" || problems["/gone"] != "it does not exist" {
			t.Errorf("%q: %q", says, problems)
		}
	}
}

// here is the machine of the test with a cache and a configuration of its own, in the directory of the test.
func here(t *testing.T, env ...string) *session.Machine {
	t.Helper()
	h := hosttest.Must(local.Host())(t)
	top := t.TempDir()
	h.Cwd, h.Home = top, top
	for _, name := range []string{"GPUBUILD_CUDA", "CUDA_HOME", "CUDA_PATH", "CUDA_ROOT", "CUDA_TOOLKIT_ROOT_DIR", "NVCC", "CUDACXX"} {
		h.Env = h.Env.Unset(name)
	}
	h.Env = h.Env.Set("GPUBUILD_CONFIG", filepath.Join(top, "own", "config.toml"))
	run := &answers{of: map[string]string{filepath.Join(top, "cuda", "bin", h.Exe("nvcc")): fmt.Sprintf(release, "12.4")}}
	return &session.Machine{Host: h, Runner: run, Shell: &console.Shell{}, CacheDir: filepath.Join(top, "cache"), Began: time.Now().Add(time.Hour)}
}

// TestUse: what `toolchain use` writes, and that it refuses what no build could take.
func TestUse(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		story, was, what string
		broken           bool
		want             string // of the file, DIR for the toolkit; or the error
	}{
		{"a directory", "", "DIR", false, "cuda = DIR"},
		{"a relative one", "", "cuda", false, "cuda = DIR"},
		{"nothing more, please", "cuda = \"12.4\"\n", "default", false, ""},
		{"what was there stays", "trust = [\"/x\"]\n", "DIR", false, "cuda = DIR\ntrust = [\"/x\"]"},
		{"one that is not here", "", "11.1", false, "there is no CUDA toolkit 11.1"},
		{"one whose nvcc does not start", "", "DIR", true, "its nvcc does not work"},
		{"a file that makes no sense", "cuda = \n", "DIR", false, "config.toml"},
	} {
		m := here(t)
		dir, path := filepath.Join(m.Host.Cwd, "cuda"), m.Host.Env.Get("GPUBUILD_CONFIG")
		files := map[string]string{path: tt.was, filepath.Join(dir, "bin", m.Host.Exe("nvcc")): "\x7fELF", filepath.Join(dir, "include", "cuda.h"): "#define CUDA_VERSION 12040\n"}
		for at, text := range files {
			if text == "" {
				continue
			}
			hosttest.OK(t, os.MkdirAll(filepath.Dir(at), 0o755))
			hosttest.OK(t, os.WriteFile(at, []byte(text), 0o755))
		}
		if tt.broken {
			m.Runner = &answers{}
		}
		_, err := Use(t.Context(), m, strings.ReplaceAll(tt.what, "DIR", dir))
		text, _ := os.ReadFile(path)
		got := strings.TrimSpace(strings.ReplaceAll(string(text), fmt.Sprintf("%q", dir), "DIR"))
		if err == nil && got != tt.want || err != nil && !strings.Contains(err.Error(), tt.want) || err != nil && string(text) != tt.was {
			t.Errorf("%s: %q, %v; want %q", tt.story, got, err, tt.want)
		}
	}
	m := here(t)
	m.Host.Env, m.Host.Home = m.Host.Env.Unset("GPUBUILD_CONFIG").Unset("XDG_CONFIG_HOME").Unset("APPDATA"), ""
	if _, err := Use(t.Context(), m, "default"); err == nil || !strings.Contains(err.Error(), "there is no home directory") {
		t.Errorf("without a home: %v", err)
	}
}

// TestArchUnsetIsKept: of a directory that was built for the GPU here without CUDA_COMPUTE_CAP, and until it is built with one.
func TestArchUnsetIsKept(t *testing.T) {
	t.Parallel()
	m := here(t)
	for i, tt := range []struct {
		set  bool
		arch int
		want bool
	}{{false, 0, false}, {true, 8, false}, {false, 8, true}, {false, 8, true}, {true, 8, false}, {false, 8, true}, {false, 0, false}} {
		env := m.Host.Env.Unset("CUDA_COMPUTE_CAP")
		if tt.set {
			env = env.Set("CUDA_COMPUTE_CAP", "80")
		}
		Tools{Env: env, Set: toolchain.Set{Capability: gpu.Capability{Major: tt.arch}}}.KeepArchUnset(m, "/b")
		if got := archUnset(m, "/b"); got != tt.want || archUnset(m, "/other") {
			t.Errorf("build %d: %v, want %v", i, got, tt.want)
		}
	}
}

// TestNVCCStartsOnce: that an nvcc starts is remembered, and that it does not is asked again.
func TestNVCCStartsOnce(t *testing.T) {
	t.Parallel()
	m := here(t)
	nvcc := filepath.Join(m.Host.Cwd, "cuda", "bin", m.Host.Exe("nvcc"))
	for want, path := range map[int]string{1: nvcc, 2: filepath.Join(m.Host.Cwd, "other")} {
		run := &answers{of: m.Runner.(*answers).of}
		for range 2 {
			startNVCC(t.Context(), m, run, path)
		}
		hosttest.Equal(t, len(run.asked), want, path, "was started", "times")
	}
	if run := (&answers{}); startNVCC(t.Context(), m, run, "") != "" || run.asked != nil {
		t.Errorf("no nvcc: %q", run.asked)
	}
}

// TestWorking: a toolkit whose nvcc does not start gives way to the next, where nvcc is run at all.
func TestWorking(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		story  string
		needs  toolchain.Needs
		broken string
		want   string
	}{
		{"both work", toolchain.Needs{NVCC: true}, "", "/usr/local/cuda-13.4"},
		{"one does not", toolchain.Needs{NVCC: true}, "/usr/local/cuda-13.4", "/usr/local/cuda-12.4"},
		{"of which only the version is asked", toolchain.Needs{NVCCVersion: true}, "/usr/local/cuda-13.4", "/usr/local/cuda-12.4"},
		{"only libraries are linked", toolchain.Needs{Libraries: true}, "/usr/local/cuda-13.4", "/usr/local/cuda-13.4"},
		{"no toolkit is needed", toolchain.Needs{CUDA: true}, "/usr/local/cuda-13.4", "none"},
	} {
		m, run, _ := planted(t, gcc+kit("/usr/local/cuda-12.4", "12.4")+kit("/usr/local/cuda-13.4", "13.4"))
		delete(run.of, tt.broken+"/bin/nvcc")
		f, _ := discovery{machine: m, host: m.Host, needs: toolchain.Needs{NVCC: true}}.run(t.Context())
		set, err := Working(t.Context(), m, run, f, tt.needs, toolchain.Wish{Arch: "80"})
		got := "none"
		if set.Toolkit != nil {
			got = set.Toolkit.Root
		}
		if got != tt.want || err != nil {
			t.Errorf("%s: %s, %v; want %s", tt.story, got, err, tt.want)
		}
	}
}

// TestAsked: with what the user asked for a toolkit of this build.
func TestAsked(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		o              Options
		env            string
		asked, request string
	}{
		{Options{}, "", "", ""},
		{Options{Arch: "80"}, "", "--gpu-arch", "--gpu-arch"},
		{Options{Toolkit: "13.4"}, "", "--gpu-toolkit", "--gpu-toolkit"},
		{Options{Toolkit: "13.4", Arch: "80"}, "", "--gpu-arch", "--gpu-arch"},
		{Options{Toolkit: None}, "", "", ""},
		{Options{Toolkit: "fetch"}, "", "", ""},
		{Options{}, "13.4", "GPUBUILD_CUDA", ""},
		{Options{}, "fetch", "", ""},
		{Options{Toolkit: None}, "13.4", "", ""},
		{Options{Toolkit: "12.4"}, "13.4", "--gpu-toolkit", "--gpu-toolkit"},
	} {
		h := hostOf(t, "-- @env --\nGPUBUILD_CUDA="+tt.env+"\n")
		tt.o.Prefix = "--gpu-"
		if asked, request := tt.o.asked(h), tt.o.Requested(); asked != tt.asked || request != tt.request {
			t.Errorf("%+v with %q: %q and %q", tt.o, tt.env, asked, request)
		}
	}
}

// TestSplitCUDNN: a cuDNN whose parts lie apart gets one root in the cache; any other stays where it is.
func TestSplitCUDNN(t *testing.T) {
	t.Parallel()
	m := here(t)
	dir := t.TempDir()
	for _, tt := range []struct {
		c    *cudnn.Install
		same bool
		bad  bool
	}{
		{nil, true, false}, {&cudnn.Install{Root: "/x"}, true, false},
		{&cudnn.Install{Root: "/x", Split: true, Include: dir, Lib: dir}, false, false},
		{&cudnn.Install{Root: "/x", Split: true, Include: filepath.Join(dir, "gone"), Lib: dir}, true, true},
	} {
		set := toolchain.Set{CUDNN: tt.c}
		err := joinCUDNN(m, &set)
		if (err != nil) != tt.bad || tt.same != (set.CUDNN == tt.c) || !tt.same && (!m.Host.Below(set.CUDNN.Root, m.CacheDir) || tt.c.Root != "/x") {
			t.Errorf("%+v: %+v, %v", tt.c, set.CUDNN, err)
		}
	}
}

// TestDiscover: what a look at the whole machine refuses, and that a repository's launcher is not started.
func TestDiscover(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		story, text string
		o           Options
		want        string
		refused     bool
	}{
		{"a machine", gcc + kit("/opt/cuda", "12.4"), Options{}, "", false},
		{"a flag that names nothing", gcc, Options{CCBin: "g++-9"}, "it is not on PATH", false},
		{"the repository's launcher", gcc + "-- /r/app/nvcc +x --\n#!/bin/sh\n-- /r/app/.cargo/config.toml --\n[env]\nNVCC = \"/r/app/nvcc\"\n", Options{}, "", true},
		{"one that is gone", gcc + "-- /r/app/.cargo/config.toml --\n[env]\nNVCC = \"/r/app/nvcc\"\n", Options{}, "", false},
		{"a configuration that is gone", gcc + "-- /r/app/.cargo/config.toml --\n[env]\nNVCC = \"/r/app/nvcc\"\n-- @env --\nGPUBUILD_CONFIG=/gone\n", Options{Toolkit: "12.4"}, "names this file", false},
	} {
		m, run, _ := planted(t, tt.text)
		tt.o.Cargo = cargo.Tool{Path: "/usr/bin/cargo"}
		s := &session.Session{Machine: m, Project: &manifest.Project{Root: "/r/app"}}
		found, err := Discover(t.Context(), s, session.Graph{}, &features.Reach{}, tt.o)
		if (err != nil) != (tt.want != "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", tt.story, err)
		}
		if err == nil && (found.Guard.Check(toolchain.Set{}) != nil) != tt.refused || strings.Contains(strings.Join(run.asked, " "), "/r/app") {
			t.Errorf("%s: refused is not %v; asked %q", tt.story, tt.refused, run.asked)
		}
	}
}
