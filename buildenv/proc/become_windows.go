package proc

import "gpubuild/buildenv"

// Become does nothing: on Windows no program can take the place of another one.
func Become(buildenv.Cmd) {}
