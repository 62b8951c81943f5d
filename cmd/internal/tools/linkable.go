package tools

import (
	"slices"
	"strings"

	"gpubuild/buildenv/lazyregexp"
	"gpubuild/cmd/internal/session"
	"gpubuild/features"
	"gpubuild/features/catalog"
	"gpubuild/features/manifest"
	"gpubuild/toolchain/cargo"
)

// toLink lists the libraries that cargo will link with, and the headers that build scripts compile with, which must be where we know of;
// cuDNN is chosen apart.
func toLink(s *session.Session, tool cargo.Tool, reach *features.Answer) []string {
	if v := s.Line.Verb; v == "check" || v == "clippy" || !s.Line.Links() || namesLinkDirs(s, tool) {
		return slices.DeleteFunc(slices.Clone(reach.Needs.Files), func(f string) bool { return !strings.HasSuffix(f, ".h") })
	}
	return slices.DeleteFunc(LinkedLibraries(reach), func(l string) bool { return l == "libcudnn" })
}

// linkWords are what names directories for the linker: rustflags, a table of the configuration in place of a build script, or a
// script's own output.
var linkWords = lazyregexp.New(`(?s)rustflags.*(-L|link-arg)|rustc-link-search|rustc-flags`)

// namesLinkDirs says whether cargo's configuration or a build script of the workspace may name directories for the linker, by its
// words: then nothing is known of what it finds.
func namesLinkDirs(s *session.Session, tool cargo.Tool) bool {
	if slices.ContainsFunc(s.Line.Config, linkWords.MatchString) {
		return true
	}
	h := s.Machine.Host
	known, err := catalog.Default()
	if s.Project != nil && err == nil {
		for _, p := range s.Project.Members {
			if c := known.Crate(p.Name); c != nil && c.Files != nil {
				continue // llama-cpp-sys-2 in its own repository: it names what it does from the registry
			}
			if text, err := h.ReadFile(h.Join(p.Dir, "build.rs"), 1<<20); err == nil && linkWords.Match(text) {
				return true
			}
		}
	}
	for _, file := range cargo.ConfigFiles(h, tool, s.Line) {
		text, err := h.ReadFile(file, 1<<20)
		if err != nil || linkWords.Match(text) {
			return true // one that cannot be read may say anything
		}
	}
	return false
}

// LinkedLibraries lists the libraries that the project's programs are linked with, and the headers that are compiled with them.
func LinkedLibraries(reach *features.Answer) (libraries []string) {
	for _, need := range reach.Needs.Run {
		if strings.HasPrefix(need.Need, "lib") && need.Why == "to start" {
			libraries = append(libraries, need.Need)
		}
	}
	return manifest.Union(libraries, reach.Needs.Files)
}
