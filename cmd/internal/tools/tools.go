// Package tools joins what the features need with what the machine has: it chooses the toolkit, the host compiler and cuDNN, and makes the environment of
// the build. It never starts a build.
package tools

import (
	"gpubuild/buildenv"
	"gpubuild/toolchain"
)

// Tools is what was chosen for a build, and the environment that it makes.
type Tools struct {
	Needs toolchain.Needs
	Facts toolchain.Facts
	Set   toolchain.Set
	Delta buildenv.Delta // the changes to the user's environment, with their reasons
	Env   buildenv.Env   // the build's whole environment
	// ExportFrom and Exported are the environment and the changes for another program than cargo: cargo's [env] tables, which only cargo reads, are
	// part of the changes there.
	ExportFrom  buildenv.Env
	Exported    buildenv.Delta
	DriverNotes []string // how the driver was asked; nil when it was not
}
