package features

import "gpubuild/buildenv"

// pkg is a short way to write a manifest.
func pkg(name, rest string) string {
	return "[package]\nname = \"" + name + "\"\nversion = \"0.1.0\"\nedition = \"2021\"\n" + rest
}

// judgeIn gathers and decides.
func judgeIn(h buildenv.Host, in Input) *Reach {
	facts := Gather(h, in)
	return Judge(&facts)
}
