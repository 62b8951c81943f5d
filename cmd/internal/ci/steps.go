package ci

import (
	"path"
	"slices"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/cmd/internal/origin"
)

// Names of steps.
const (
	StepToolkit = "toolkit"
	StepBuild   = "build"
	StepArchive = "archive"
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
	Row     Row  // whose step it is
	Fetches bool // downloads: a person's or a workflow's word is needed
}

func title(step string) string {
	switch step {
	case StepToolkit:
		return "CUDA toolkit"
	case StepBuild:
		return "Build"
	case StepArchive:
		return "Archive for the GPU machine"
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

// build is the command line of the row's build, without its verb.
func (r Row) build() []string {
	var words []string
	if r.Features != "" {
		words = append(words, "--features="+r.Features)
	}
	switch r.Profile {
	case "", "dev":
	case "release":
		words = append(words, "--release")
	default:
		words = append(words, "--profile="+r.Profile)
	}
	if r.Toolkit != None {
		words = append(words, "--gpu-toolkit="+r.CUDA)
	}
	if r.Arch != "" {
		words = append(words, "--gpu-arch="+r.Arch)
	}
	return append(words, r.CargoArgs...)
}

// env is the environment of the row's build.
func (r Row) env() []Var {
	return []Var{{"CARGO_TARGET_DIR", TargetDir(r.ID)}, {origin.RowVariable, r.ID}}
}

// Steps makes the steps of a row; those of a row that proves need what the row that compiles it has packed.
func Steps(r Row) []Step {
	make := func(name string, env []Var, args ...string) Step {
		return Step{Name: name, Title: title(name), Args: args, Env: env, Row: r}
	}
	if r.Kind == Proof {
		return []Step{make(StepProve, nil, "ci", "prove", Archive(r.Compile), "--row="+r.ID, "--results="+ResultsDir(r.ID))}
	}
	var steps []Step
	if r.Toolkit == Fetch {
		install := []string{"toolchain", "install", r.CUDA}
		if len(r.Parts) > 0 {
			install = append(install, "--parts="+strings.Join(r.Parts, ","))
		}
		s := make(StepToolkit, nil, install...)
		s.Fetches = true
		steps = append(steps, s)
	}
	// Our own flags stand before the project's words, of which any may end what is cargo's.
	steps = append(steps, make(StepBuild, r.env(), slices.Concat([]string{"build"}, results(r.ID, StepBuild), r.build())...))
	if r.Packed {
		steps = append(steps, make(StepArchive, nil, "ci", "archive", r.ID))
	}
	return steps
}

// Script is a step as a line that a POSIX shell reads back to the very words.
func (s Step) Script() string {
	var words []string
	for _, v := range s.Env {
		words = append(words, v.Name+"="+buildenv.PosixWords(v.Value))
	}
	words = append(words, buildenv.PosixWords(append([]string{"gpubuild"}, s.Args...)...))
	return strings.Join(words, " ")
}
