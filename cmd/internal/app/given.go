package app

import (
	"strings"

	"gpubuild/buildenv"
	"gpubuild/toolchain"
	"gpubuild/toolchain/cargo"
)

// takeGiven lets the [env] tables of cargo's configuration count as what the user set: build scripts see them. It answers them for keepGiven.
func (j *journey) takeGiven() []cargo.Given {
	if j.tool.Path == "" {
		return nil // not cargo is run
	}
	all := cargo.ConfigEnv(j.host, j.tool, j.line)
	for _, g := range all {
		if _, set := j.host.Env.Lookup(g.Name); toolchain.Steers(j.host, g.Name) && (g.Force || !set) {
			j.host.Env = j.host.Env.Set(g.Name, g.Value)
		}
	}
	return all
}

// keepGiven sees to it that no [env] table takes the chosen tools away from build scripts again: one that forces its value is overruled on cargo's command
// line, and what was unset gets a value, because cargo would set it.
func (j *journey) keepGiven(all []cargo.Given) {
	for _, g := range all {
		isPath := g.Name == "PATH" || j.host.OS == buildenv.Windows && strings.EqualFold(g.Name, "PATH")
		if !isPath && !toolchain.Steers(j.host, g.Name) {
			continue
		}
		want, set := j.env.Lookup(g.Name)
		if set && want == g.Value || isPath && (!g.Force || j.sameTools(g.Value)) {
			continue
		}
		if !set {
			want = toolchain.InPlace(j.set, g.Name)
			j.delta.Add(buildenv.Set, g.Name, want, "cargo would set it by the [env] of "+g.Origin)
			j.env = j.env.Set(g.Name, want)
			j.tool = j.tool.With(j.env)
		}
		if !g.Force {
			continue // the environment is stronger
		}
		j.line = j.line.WithEnv(g.Name, want)
		j.shell.Warning("the [env] of %s forces %s=%s, and build scripts are given %s; a build by plain cargo takes the other", g.Origin, g.Name, g.Value, orWord(want, "nothing"))
	}
}

// sameTools says whether another PATH leads to the same compilers.
func (j *journey) sameTools(path string) bool {
	one, other := j.host, j.host
	one.Env, other.Env = j.env, j.env.Set("PATH", path)
	for _, tool := range []string{"nvcc", "cl", "gcc", "g++"} {
		a, _ := one.LookPath(tool) // none is no error
		b, _ := other.LookPath(tool)
		if a != b && (tool != "cl" || j.host.OS == buildenv.Windows) {
			return false
		}
	}
	return true
}
