package app

import (
	"strings"

	"gpubuild/buildenv"
	"gpubuild/toolchain"
	"gpubuild/toolchain/cargo"
)

// takeGiven lets the [env] tables of cargo's configuration count as what the user set: build scripts see them. It answers them for keepGiven.
func (j *journey) takeGiven() []cargo.Given {
	if j.Tool.Path == "" {
		return nil // not cargo is run
	}
	all := cargo.ConfigEnv(j.Host, j.Tool, j.Line)
	for _, g := range all {
		if _, set := j.Host.Env.Lookup(g.Name); toolchain.Steers(j.Host, g.Name) && (g.Force || !set) {
			j.Host.Env = j.Host.Env.Set(g.Name, g.Value)
		}
	}
	return all
}

// keepGiven sees to it that no [env] table takes the chosen tools away from build scripts again: one that forces its value is overruled on cargo's command
// line, and what was unset gets a value, because cargo would set it.
func (j *journey) keepGiven(all []cargo.Given) {
	for _, g := range all {
		isPath := g.Name == "PATH" || j.Host.OS == buildenv.Windows && strings.EqualFold(g.Name, "PATH")
		if !isPath && !toolchain.Steers(j.Host, g.Name) {
			continue
		}
		want, set := j.Env.Lookup(g.Name)
		if set && want == g.Value || isPath && (!g.Force || j.sameTools(g.Value)) {
			continue
		}
		if !set {
			want = toolchain.InPlace(j.Set, g.Name)
			j.Delta.Add(buildenv.Set, g.Name, want, "cargo would set it by the [env] of "+g.Origin)
			j.Env = j.Env.Set(g.Name, want)
			j.Tool = j.Tool.With(j.Env)
		}
		if !g.Force {
			continue // the environment is stronger
		}
		j.Line = j.Line.WithEnv(g.Name, want)
		j.Shell.Warning("the [env] of %s forces %s=%s, and build scripts are given %s; a build by plain cargo takes the other", g.Origin, g.Name, g.Value, orWord(want, "nothing"))
	}
}

// sameTools says whether another PATH leads to the same compilers.
func (j *journey) sameTools(path string) bool {
	one, other := j.Host, j.Host
	one.Env, other.Env = j.Env, j.Env.Set("PATH", path)
	for _, tool := range []string{"nvcc", "cl", "gcc", "g++"} {
		a, _ := one.LookPath(tool) // none is no error
		b, _ := other.LookPath(tool)
		if a != b && (tool != "cl" || j.Host.OS == buildenv.Windows) {
			return false
		}
	}
	return true
}
