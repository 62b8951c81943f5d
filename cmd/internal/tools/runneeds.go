package tools

import (
	"slices"

	"gpubuild/buildenv"
	"gpubuild/buildenv/lazyregexp"
	"gpubuild/features"
	"gpubuild/features/catalog"
)

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
