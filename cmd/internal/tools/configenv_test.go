package tools

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"gpubuild/buildenv"
	"gpubuild/buildenv/hosttest"
	"gpubuild/cmd/internal/config"
	"gpubuild/cmd/internal/session"
	"gpubuild/features"
	"gpubuild/features/catalog"
	"gpubuild/toolchain"
	"gpubuild/toolchain/cargo"
)

// TestConfigEnvCounts: what an [env] table says of tools counts where the user's environment says nothing, or the table forces it.
func TestConfigEnvCounts(t *testing.T) {
	t.Parallel()
	h := hostOf(t, "-- @empty --\n/usr/bin/gcc +x\n")
	h.Env = buildenv.NewEnv(h.OS, []string{"PATH=/usr/bin", "CUDA_HOME=/mine"})
	for _, tt := range []struct {
		story    string
		given    cargo.Given
		want     string
		warnings int
	}{
		{"not set", cargo.Given{Name: "CUDA_PATH", Value: "/theirs"}, "/theirs", 0},
		{"set by the user", cargo.Given{Name: "CUDA_HOME", Value: "/theirs"}, "/mine", 0},
		{"set by the user, and forced", cargo.Given{Name: "CUDA_HOME", Value: "/theirs", Force: true}, "/theirs", 1},
		{"set by the user, and forced to the same", cargo.Given{Name: "CUDA_HOME", Value: "/mine", Force: true}, "/mine", 0},
		{"no matter of tools", cargo.Given{Name: "RUST_LOG", Value: "debug", Force: true}, "", 0},
	} {
		env, warnings := importConfigEnv(h, []cargo.Given{tt.given})
		if got := env.Get(tt.given.Name); got != tt.want || len(warnings) != tt.warnings {
			t.Errorf("%s: %q, %q", tt.story, got, warnings)
		}
	}
}

// TestConfigEnvIsOverruled: the chosen tools reach build scripts past what the tables say.
func TestConfigEnvIsOverruled(t *testing.T) {
	t.Parallel()
	h := hostOf(t, "-- @empty --\n/usr/bin/gcc +x\n/theirs/gcc +x\n/same/x\n")
	h.Env = buildenv.NewEnv(h.OS, []string{"PATH=/usr/bin"})
	env := h.Env.Set("CUDA_HOME", "/chosen")
	for _, tt := range []struct {
		story string
		given cargo.Given
		set   string // in the environment
		line  string // on cargo's command line
	}{
		{"the same", cargo.Given{Name: "CUDA_HOME", Value: "/chosen", Force: true}, "", ""},
		{"another, not forced", cargo.Given{Name: "CUDA_HOME", Value: "/theirs"}, "", ""},
		{"another, forced", cargo.Given{Name: "CUDA_HOME", Value: "/theirs", Force: true}, "", "CUDA_HOME"},
		{"one that is not set", cargo.Given{Name: "CUDACXX", Value: "/theirs/nvcc"}, "CUDACXX", ""},
		{"a PATH with other compilers, not forced", cargo.Given{Name: "PATH", Value: "/theirs"}, "", ""},
		{"a PATH with other compilers, forced", cargo.Given{Name: "PATH", Value: "/theirs:/usr/bin", Force: true}, "", "PATH"},
		{"a PATH with the same, forced", cargo.Given{Name: "PATH", Value: "/same:/usr/bin", Force: true}, "", ""},
		{"no matter of tools", cargo.Given{Name: "RUST_LOG", Value: "debug", Force: true}, "", ""},
	} {
		got := overrideConfigEnv(h, env, toolchain.Set{}, []cargo.Given{tt.given}, cargo.Line{Verb: "build"})
		set := ""
		for _, c := range got.Delta.Changes {
			set += c.Name
		}
		line := fmt.Sprint(got.Line.Words())
		if set != tt.set || strings.Contains(line, "--config") != (tt.line != "") || !strings.Contains(line, tt.line) ||
			len(got.Warnings) > 0 != (tt.line != "") {
			t.Errorf("%s: set %q, %s, %q", tt.story, set, line, got.Warnings)
		}
	}
}

// TestUndeclared: a package that compiles kernels unseen is looked for where no other one needs a toolkit, or gpubuild.toml names it.
func TestUndeclared(t *testing.T) {
	t.Parallel()
	h := hostOf(t, "")
	for _, tt := range []struct {
		story    string
		needs    toolchain.Needs
		named    bool
		found    Undeclared
		arch     string
		nvcc     bool
		reads    string
		asksNone bool
		reach    features.Reach
		bare     bool // only PATH is set
	}{
		{story: "an architecture, next to a cudarc", found: Undeclared{Package: "kern"}, arch: "89", nvcc: true, reads: "CUDA_COMPUTE_CAP", reach: features.Reach{Cudarc: []catalog.Cudarc{{}}}},
		{story: "none, next to a cudarc", found: Undeclared{Package: "kern"}, nvcc: true, reads: "PATH", reach: features.Reach{Cudarc: []catalog.Cudarc{{}}}, bare: true},
		{story: "an architecture, and others read variables", needs: toolchain.Needs{Reads: []string{"cmake"}}, found: Undeclared{Package: "kern"}, arch: "89", nvcc: true, reads: "CUDA_COMPUTE_CAP"},
		{story: "an architecture", found: Undeclared{Package: "kern"}, arch: "89", nvcc: true, bare: true},
		{story: "named, and nobody asks", named: true, found: Undeclared{Package: "kern", Named: true}, nvcc: true, bare: true},
		{story: "none", found: Undeclared{}},
		{story: "one of the user's", found: Undeclared{Package: "kern"}, nvcc: true, reads: "PATH"},
		{story: "with an architecture", found: Undeclared{Package: "kern"}, arch: "89", nvcc: true},
		{story: "named", named: true, found: Undeclared{Package: "kern", Named: true}, nvcc: true},
		{story: "named, next to crates that link", needs: toolchain.Needs{Libraries: true}, named: true,
			found: Undeclared{Package: "kern", Named: true}, nvcc: true},
		{story: "not named, next to crates that link", needs: toolchain.Needs{Libraries: true}, named: true, found: Undeclared{Package: "kern"}},
		{story: "nvcc is needed anyway", needs: toolchain.Needs{NVCC: true}, nvcc: true, asksNone: true},
	} {
		s := &session.Session{Machine: &session.Machine{Host: h}}
		if tt.named {
			s.Config.GPUPackages = config.Value[[]string]{Value: []string{"kern"}}
		}
		asked := false
		n, u, err := undeclared(s, &tt.reach, tt.needs, Options{Arch: tt.arch, Undeclared: func(string) (Undeclared, error) {
			asked = true
			return tt.found, nil
		}})
		if err != nil || n.NVCC != tt.nvcc || asked == tt.asksNone || (u.Package != "") != (tt.nvcc && !tt.asksNone) ||
			tt.reads != "" && !slices.Contains(n.Reads, tt.reads) || u.Archs != nil {
			t.Errorf("%s: %+v, %+v, %v", tt.story, n, u, err)
		}
		if tt.bare && (slices.Contains(n.Reads, "CUDA_COMPUTE_CAP") || tt.reads == "" && n.Reads != nil) {
			t.Errorf("%s: reads %q", tt.story, n.Reads)
		}
	}
}

// TestConfigEnvOnWindows: PATH has any letter case there, and cl is one of the programs that a table must not change.
func TestConfigEnvOnWindows(t *testing.T) {
	t.Parallel()
	for os, names := range map[string][2]string{"windows": {`C:\a`, `C:\b`}, "linux": {"/a", "/b"}} {
		file := map[string]string{"windows": `\cl.exe`, "linux": "/cl"}[os] + " +x\n"
		h := hosttest.Must(hosttest.Parse([]byte("os: " + os + "\n-- @empty --\n" + names[0] + file + names[1] + file)))(t)
		h.Env = buildenv.NewEnv(h.OS, []string{"PATH=" + names[0]})
		for _, name := range []string{"PATH", "Path"} {
			got := overrideConfigEnv(h, h.Env, toolchain.Set{}, []cargo.Given{{Name: name, Value: names[1], Force: true}}, cargo.Line{Verb: "build"})
			if want := os == "windows"; (len(got.Warnings) > 0) != want {
				t.Errorf("%s of %s: %q", name, os, got.Warnings)
			}
		}
	}
}

// TestScriptEnv: build scripts see what tables set, unless the user's own value is stronger or the build's tools are meant.
func TestScriptEnv(t *testing.T) {
	t.Parallel()
	h := hostOf(t, "")
	env := buildenv.NewEnv(h.OS, []string{"PATH=/usr/bin", "MINE=mine"})
	for _, tt := range []struct {
		given cargo.Given
		want  string
	}{
		{cargo.Given{Name: "OTHER", Value: "x"}, "x"}, {cargo.Given{Name: "MINE", Value: "x"}, "mine"}, {cargo.Given{Name: "MINE", Value: "x", Force: true}, "x"},
		{cargo.Given{Name: "PATH", Value: "/x", Force: true}, "/usr/bin"}, {cargo.Given{Name: "CUDA_HOME", Value: "/x", Force: true}, ""}, {cargo.Given{Name: "CUDA_HOME", Value: "/x"}, ""},
	} {
		hosttest.Equal(t, (Tools{Env: env, Given: []cargo.Given{tt.given}}).ScriptEnv(h).Get(tt.given.Name), tt.want, tt.given)
	}
}
