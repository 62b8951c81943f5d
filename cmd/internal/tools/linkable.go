package tools

import (
	"regexp"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/cmd/internal/session"
	"gpubuild/features"
	"gpubuild/toolchain"
	"gpubuild/toolchain/cargo"
)

// Unlinkable lists the files that the linker will not find for what the project's programs are linked with.
func Unlinkable(s *session.Session, tool cargo.Tool, reach *features.Answer, set toolchain.Set, env buildenv.Env) []string {
	libraries := LinkedLibraries(reach)
	if len(libraries) == 0 || namesLinkDirs(s, tool) {
		return nil
	}
	return toolchain.Unlinkable(s.Machine.Host, set, env, libraries)
}

// linkWords are what cargo's configuration has where it names directories for
// the linker: in rustflags, or in a table that stands for a build script.
var linkWords = regexp.MustCompile(`(?s)rustflags.*(-L|link-arg)|rustc-link-search|rustc-flags`)

// namesLinkDirs says whether cargo's configuration may name directories for the
// linker, by its words: then nothing is known of what it finds.
func namesLinkDirs(s *session.Session, tool cargo.Tool) bool {
	for _, c := range s.Line.Config {
		if linkWords.MatchString(c) {
			return true
		}
	}
	h := s.Machine.Host
	for _, file := range cargo.ConfigFiles(h, tool, s.Line) {
		text, err := h.ReadFile(file, 1<<20)
		if err != nil || linkWords.Match(text) {
			return true // one that cannot be read may say anything
		}
	}
	return false
}

// LinkedLibraries lists the libraries that the project's programs are linked with.
func LinkedLibraries(reach *features.Answer) (libraries []string) {
	for _, need := range reach.Needs.Run {
		if strings.HasPrefix(need.Need, "lib") && need.Why == "to start" {
			libraries = append(libraries, need.Need)
		}
	}
	return libraries
}
