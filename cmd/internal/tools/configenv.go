package tools

import (
	"cmp"
	"fmt"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/cmd/internal/session"
	"gpubuild/toolchain"
	"gpubuild/toolchain/cargo"
)

// configured is the machine with what cargo's [env] tables say of tools, and the tables.
func configured(s *session.Session, o Options) (buildenv.Host, []cargo.Given) {
	host := s.Machine.Host
	if o.Cargo.Path == "" {
		return host, nil
	}
	tables := cargo.ConfigEnv(host, o.Cargo, s.Line)
	env, warnings := importConfigEnv(host, tables)
	for _, w := range warnings {
		s.Machine.Shell.Warning("%s", w)
	}
	host.Env = env
	return host, tables
}

// importConfigEnv is the user's environment with what the [env] tables of cargo's configuration say of tools: build scripts see it, so it
// counts as what the user set. Where it is forced over another value, a warning says so.
func importConfigEnv(h buildenv.Host, tables []cargo.Given) (env buildenv.Env, warnings []string) {
	env = h.Env
	for _, g := range tables {
		own, set := env.Lookup(g.Name)
		if !toolchain.SelectsToolchain(h, g.Name) || set && !g.Force {
			continue
		}
		if own != "" && own != g.Value {
			warnings = append(warnings, fmt.Sprintf("the [env] of %s forces %s=%s in place of the %s of your environment",
				g.Origin, g.Name, g.Value, own))
		}
		env = env.Set(g.Name, g.Value)
	}
	return env, warnings
}

// ScriptEnv is the environment of build scripts: the build's, and what only cargo's [env] tables set.
func (t Tools) ScriptEnv(h buildenv.Host) buildenv.Env {
	env := t.Env
	for _, g := range t.Given {
		_, set := env.Lookup(g.Name)
		if (!set || g.Force) && g.Name != "PATH" && !toolchain.SelectsToolchain(h, g.Name) { // tools are the build's, see overrideConfigEnv
			env = env.Set(g.Name, g.Value)
		}
	}
	return env
}

// scriptHost is a machine as build scripts see it.
func scriptHost(h buildenv.Host, tables []cargo.Given) buildenv.Host {
	h.Env = Tools{Env: h.Env, Given: tables}.ScriptEnv(h)
	return h
}

// override is what keeps the [env] tables from taking the chosen tools away from build scripts.
type override struct {
	Delta    buildenv.Delta // what has to be set because cargo would set it otherwise
	Line     cargo.Line     // the command line, which overrules values that are forced
	Warnings []string
}

// overrideConfigEnv returns what must be added to the environment and the command line of a build: a table that forces its value is
// overruled on the command line, and what was unset gets a value.
func overrideConfigEnv(h buildenv.Host, env buildenv.Env, set toolchain.Set, tables []cargo.Given, line cargo.Line) override {
	o := override{Line: line}
	for _, g := range tables {
		isPath := g.Name == "PATH" || h.OS == buildenv.Windows && strings.EqualFold(g.Name, "PATH")
		if !isPath && !toolchain.SelectsToolchain(h, g.Name) {
			continue
		}
		want, isSet := env.Lookup(g.Name)
		if isSet && want == g.Value || isPath && (!g.Force || samePrograms(h, env, env.Set("PATH", g.Value))) {
			continue
		}
		if !isSet {
			want = toolchain.InPlace(set, g.Name)
			o.Delta.Add(buildenv.Set, g.Name, want, "cargo would set it by the [env] of "+g.Origin)
		}
		if !g.Force {
			continue // the environment is stronger
		}
		o.Line = o.Line.WithEnv(g.Name, want)
		o.Warnings = append(o.Warnings, fmt.Sprintf(
			"the [env] of %s forces %s=%s, and build scripts are given %s; a build by plain cargo takes the other",
			g.Origin, g.Name, g.Value, cmp.Or(want, "nothing")))
	}
	return o
}

// samePrograms reports whether the PATHs of two environments lead to the same compilers.
func samePrograms(h buildenv.Host, a, b buildenv.Env) bool {
	one, other := h, h
	one.Env, other.Env = a, b
	for _, tool := range []string{"nvcc", "cl", "gcc", "g++"} {
		x, _ := one.LookPath(tool) // none is no error
		y, _ := other.LookPath(tool)
		if x != y && (tool != "cl" || h.OS == buildenv.Windows) {
			return false
		}
	}
	return true
}
