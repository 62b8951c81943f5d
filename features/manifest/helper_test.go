package manifest

import "gpubuild/buildenv"

// pkg is a short way to write a manifest.
func pkg(name, rest string) string {
	return "[package]\nname = \"" + name + "\"\nversion = \"0.1.0\"\nedition = \"2021\"\n" + rest
}

// readOne reads a manifest that belongs to no project.
func readOne(h buildenv.Host, path string) *Package {
	p := Project{host: h, byPath: map[string]*Package{}}
	return p.Read(path)
}
