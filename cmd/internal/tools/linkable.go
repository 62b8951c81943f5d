package tools

import (
	"slices"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/lazyregexp"
	"gpubuild/cmd/internal/session"
	"gpubuild/features"
	"gpubuild/features/catalog"
	"gpubuild/features/manifest"
	"gpubuild/toolchain/cargo"
)

// toLink lists the libraries that cargo will link with, and the headers that build scripts compile with, which must be where we know of;
// cuDNN is chosen apart.
func toLink(s *session.Session, tool cargo.Tool, reach *features.Reach) []string {
	if v := s.Line.Verb; v == "check" || v == "clippy" || !s.Line.Links() || namesLinkDirs(s, tool) {
		return slices.DeleteFunc(slices.Clone(reach.Needs.Files), func(f string) bool { return !strings.HasSuffix(f, ".h") })
	}
	return slices.DeleteFunc(LinkedLibraries(reach.Needs.Run, reach.Needs.Files), func(l string) bool { return l == "libcudnn" })
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
	known := catalog.Default()
	if s.Project != nil {
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
func LinkedLibraries(needs []features.NeedReason, files []string) (libraries []string) {
	for _, need := range needs {
		if strings.HasPrefix(need.Need, "lib") && need.Why == "to start" {
			libraries = append(libraries, need.Need)
		}
	}
	return manifest.Union(libraries, files)
}

// scriptLinks is a library of the toolkit that a build script names to the linker. A static one is not needed to run.
var scriptLinks = lazyregexp.New(`rustc-link-lib=(?:dylib(?::[^="]*)?=)?(cudart|cublas(?:Lt)?|` +
	`cufft|curand|cusolver|cusparse|nvrtc|cudnn)\b`)

// RunNeeds lists what the programs need to run: what the feature check knows of crates, and what build scripts that the catalog does not
// have link by name. The latter is read from their text and may be conditional, so that it is shown and refuses no build.
func RunNeeds(h buildenv.Host, reach *features.Reach) []features.NeedReason {
	out := slices.Clone(reach.Needs.Run)
	known := catalog.Default()
	for _, u := range reach.Units {
		text, err := h.ReadFile(h.Join(u.Dir, "build.rs"), 1<<20)
		if err != nil || known.Crate(u.Name) != nil {
			continue
		}
		for _, m := range scriptLinks.FindAllStringSubmatch(string(text), -1) {
			library := "lib" + m[1]
			if !slices.ContainsFunc(out, func(n features.NeedReason) bool { return n.Need == library }) {
				out = append(out, features.NeedReason{Need: library, Crate: u.Name + " " + u.Version, Why: "to start"})
			}
		}
	}
	return out
}
