package buildenv

// Package is what a part of the machine is called by Debian and Ubuntu, by Fedora and RHEL, and by Arch.
type Package struct{ Debian, Fedora, Arch string }

// GXX is the C++ compiler of GNU.
var GXX = Package{"g++", "gcc-c++", "gcc"}

// InstallCommand installs packages with the package manager on PATH; Debian's where none of the three is there.
func (h Host) InstallCommand(packages ...Package) string {
	command, name := "apt install", func(p Package) string { return p.Debian }
	if _, err := h.LookPath("apt-get"); err != nil {
		if _, err := h.LookPath("dnf"); err == nil {
			command, name = "dnf install", func(p Package) string { return p.Fedora }
		} else if _, err := h.LookPath("pacman"); err == nil {
			command, name = "pacman -S", func(p Package) string { return p.Arch }
		}
	}
	for _, p := range packages {
		command += " " + name(p)
	}
	return command
}
