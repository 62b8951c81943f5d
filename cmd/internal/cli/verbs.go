package cli

import (
	"slices"

	"gpubuild/toolchain/cargo"
)

// verbs are our own; every other word is cargo's. Only this list knows all of them.
func verbs() []verb {
	return []verb{
		featuresVerb(), doctorVerb(), envVerb(), staleVerb(), scanVerb(),
		proveVerb(), receiptVerb(), reportVerb(), auditVerb(), bundleVerb(), watchVerb(), execVerb(), toolchainVerb(),
		ciVerb(), explainVerb(), initVerb(), cacheVerb(), completionVerb(), manVerb(), versionVerb(),
	}
}

func find(name string) (verb, bool) {
	all := verbs()
	i := slices.IndexFunc(all, func(v verb) bool { return v.Name == name })
	if i < 0 {
		return verb{}, false
	}
	return all[i], true
}

// VerbNames lists our own verbs.
func VerbNames() []string {
	var out []string
	for _, v := range verbs() {
		out = append(out, v.Name)
	}
	return out
}

// verbFirst puts rustup's word and cargo's flags behind a verb of ours, where they are read, if they stand before it as some may before
// cargo's: `gpubuild +nightly features` and `gpubuild -v stale`. Before a verb that asks no cargo, +nightly is refused.
func verbFirst(words []string) []string {
	at := 0
	if len(words) > 0 && len(words[0]) > 1 && words[0][0] == '+' {
		at = 1
	}
	at += cargo.LeadingFlags(words[at:])
	if at == 0 || at >= len(words) {
		return words
	}
	if v, ok := find(words[at]); ok && (v.Project || words[0][0] != '+') {
		return slices.Concat([]string{words[at]}, words[:at], words[at+1:])
	}
	return words
}
