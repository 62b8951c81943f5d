// Package version says what this gpubuild is: a release, the tag it was installed by, or a commit. It asks nobody but the binary itself.
package version

import (
	"runtime/debug"
	"strings"
)

// release is "VERSION COMMIT" of a released binary, written by the linker (.ci/release); empty in every other one. A release is built
// without Go's own stamp, which holds whether the checkout was clean and so differs between two builds of one commit.
var release string

// docs is where the pages of docs/ are published. The build of a release sets it (.ci/release -docs); empty in every other one.
var docs string

// Docs is the address of the documentation, which ends in a slash; empty: not known.
func Docs() string { return docs }

// address is that of the repository whose releases have this binary, such as https://HOST/OWNER/REPOSITORY. The build of a release sets
// it (.ci/release -address); empty in every other one.
var address string

// Address is where this release was published, without a slash at the end; empty: not known, and no text names a place to get gpubuild.
func Address() string { return address }

// Number is the version: the release's, the tag's, or "devel-" and the commit.
func Number() string {
	if v, _, ok := strings.Cut(release, " "); ok {
		return v
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	v := info.Main.Version
	if v == "" || v == "(devel)" {
		v = "devel"
		if c := Setting(info, "vcs.revision"); len(c) >= 12 {
			v += "-" + c[:12]
		}
	}
	return v
}

// Commit is the commit that this gpubuild was built from, or "".
func Commit() string {
	if _, commit, ok := strings.Cut(release, " "); ok {
		return commit
	}
	info, _ := debug.ReadBuildInfo()
	return Setting(info, "vcs.revision")
}

// Setting is a setting of the build that Go recorded, or "". info may be nil.
func Setting(info *debug.BuildInfo, key string) string {
	if info == nil {
		return ""
	}
	for _, s := range info.Settings {
		if s.Key == key {
			return s.Value
		}
	}
	return ""
}
