package ci

import (
	"path"
	"slices"
	"strings"

	"gpubuild/buildenv"
)

// Names of steps.
const (
	StepToolkit = "toolkit"
	StepBuild   = "build"
	StepProve   = "prove"
)

// Var is a variable of a step's environment.
type Var struct{ Name, Value string }

// Step is one command of a row: gpubuild with these words, in the workspace's
// root. It is made once; a workflow names it and `ci run` runs it.
type Step struct {
	Name    string
	Title   string // as CI shows it
	Args    []string
	Env     []Var
	Wrapper []string // put before the command
	Fetches bool     // downloads: a person's or a workflow's word is needed
	Results string   // directory that must be there for what it leaves; empty: none
}

// StepNames lists the steps that rows of a kind may have, in order. A row leaves out what it does not need.
func StepNames(kind string) []string {
	if kind == Proof {
		return []string{StepToolkit, StepBuild, StepProve}
	}
	return []string{StepToolkit, StepBuild}
}

func title(step string) string {
	switch step {
	case StepToolkit:
		return "CUDA toolkit"
	case StepBuild:
		return "Build"
	}
	return "Prove on the GPU"
}

// TargetDir is where a row builds, below the workspace's root: rows of one machine do not rebuild each other's crates.
func TargetDir(id string) string { return path.Join("target", "gpubuild-ci", id) }

// ResultsDir is where a row's receipts and JUnit files lie, below the workspace's root: `gpubuild report` joins those of all rows.
func ResultsDir(id string) string { return path.Join("target", "gpubuild-ci", "results", id) }

// results are the flags by which a step leaves what came of it, also when it fails.
func results(id, step string) []string {
	dir := ResultsDir(id)
	return []string{"--gpu-junit=" + path.Join(dir, step+".xml"), "--gpu-receipt=" + path.Join(dir, step+".json")}
}

// Steps makes the steps of a row.
func Steps(r Row) []Step {
	env := []Var{{"CARGO_TARGET_DIR", TargetDir(r.ID)}, {"GPUBUILD_ROW", r.ID}}
	build := []string{"build"}
	if r.Features != "" {
		build = append(build, "--features="+r.Features)
	}
	switch r.Profile {
	case "", "dev":
	case "release":
		build = append(build, "--release")
	default:
		build = append(build, "--profile="+r.Profile)
	}
	if r.Toolkit != None {
		build = append(build, "--gpu-toolkit="+r.CUDA)
	}
	if r.Arch != "" {
		build = append(build, "--gpu-arch="+r.Arch)
	}
	build = append(build, r.CargoArgs...)
	var steps []Step
	if r.Toolkit == Fetch {
		install := []string{"toolchain", "install", r.CUDA}
		if len(r.Parts) > 0 {
			install = append(install, "--parts="+strings.Join(r.Parts, ","))
		}
		steps = append(steps, Step{Name: StepToolkit, Title: title(StepToolkit), Args: install, Fetches: true})
	}
	// Our own flags stand before the project's words, of which any may end what is cargo's.
	left := func(step string) []string { return append([]string{"build"}, results(r.ID, step)...) }
	steps = append(steps, Step{Name: StepBuild, Title: title(StepBuild), Args: append(left(StepBuild), build[1:]...), Env: env,
		Results: ResultsDir(r.ID)})
	if r.Kind == Proof {
		asked := "--gpu-prove"
		if len(r.Args) > 0 {
			asked += "=" + buildenv.PosixWords(r.Args...)
		}
		prove := append(left(StepProve), append([]string{asked, "--gpu-require-proof"}, build[1:]...)...)
		steps = append(steps, Step{Name: StepProve, Title: title(StepProve), Args: prove, Env: env, Wrapper: r.Wrapper,
			Results: ResultsDir(r.ID)})
	}
	return steps
}

// Script is a step as a line that a POSIX shell reads back to the very words.
func (s Step) Script() string {
	var words []string
	if s.Results != "" {
		words = append(words, "mkdir -p "+buildenv.PosixWords(s.Results)+" &&")
	}
	for _, v := range s.Env {
		words = append(words, v.Name+"="+buildenv.PosixWords(v.Value))
	}
	words = append(words, buildenv.PosixWords(slices.Concat(s.Wrapper, []string{"gpubuild"}, s.Args)...))
	return strings.Join(words, " ")
}
