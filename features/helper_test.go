package features

import (
	"gpubuild/buildenv"
	"gpubuild/features/manifest"
)

// pkg is a short way to write a manifest.
func pkg(name, rest string) string {
	return "[package]\nname = \"" + name + "\"\nversion = \"0.1.0\"\nedition = \"2021\"\n" + rest
}

// judgeIn gathers and decides.
func judgeIn(h buildenv.Host, in Input) *Reach {
	facts := Gather(h, in)
	return Judge(&facts)
}

// looks is the quick look, which keeps nothing.
func looks(h buildenv.Host, p *manifest.Project, r manifest.Request) (bool, string) {
	return NewSources(h, p).GPUWork(r, func(list func() []string) []string { return list() })
}
