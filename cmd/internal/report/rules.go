package report

import (
	"strings"

	"gpubuild/buildenv/finding"
)

// Rule says what a finding's id means, whatever its message says of the case at hand.
type Rule struct {
	ID, Severity, Title, Help string
}

// rules are the ids that gpubuild gives its findings. Ids of explain are made of its own rules, those of doctor of its checks.
var rules = []Rule{
	{"features.unreached", finding.Error, "A GPU feature leaves the GPU crates off",
		"The feature was asked for, and the GPU crates that end up in the binary do not get it: the program would run on the CPU. Add " +
			"the edge that the message names to the manifest's [features]; `gpubuild features --fix` writes it."},
	{"features.undecided", finding.Note, "A GPU feature gates code of the package's own",
		"Manifests cannot tell whether that code uses the GPU. What the binary holds decides: `gpubuild scan`, `gpubuild prove`."},
	{"features.sibling", finding.Warning, "A linked crate's own CUDA code is left off",
		"A crate beside the one that is on has CUDA kernels, too, and is linked without them: its operations fail or run on the CPU. " +
			"Pass the feature on to it."},
	{"features.cudnn-without-cuda", finding.Error, "cudnn is on where the crate's own cuda is off",
		"The crate's cudnn does not turn on its cuda. Ask for both."},
	{"features.weak-edge", finding.Warning, "A weak edge carries the feature nowhere",
		"`x?/f` turns f on only where x is on already. Use `x/f`, or turn x on."},
	{"features.strong-edge", finding.Note, "A feature brings all of an optional dependency into the build",
		"`x/f` turns an optional x on. Write `x?/f` where f is meant only for an x that is on anyhow, or add `dep:x` to say that it is " +
			"meant so."},
	{"features.forced", finding.Note, "CUDA is on although no feature asked for it",
		"A dependency turns it on without a feature of this package. The build needs a toolkit in any case."},
	{"features.borrowed", finding.Warning, "Only another package's edge turns the GPU crates on",
		"Built alone this package would be without them. Add its own edge."},
	{"features.undeclared", finding.Warning, "One of several roots has no such feature",
		"cargo ignores the feature for that package. Declare it there, or build the package on its own."},
	{"features.other-meaning", finding.Note, "The feature means something else where it arrives",
		"The crates that it reaches do no GPU work by it."},
	{"features.unsure", finding.Warning, "cargo's two answers differ",
		"The unit graph and `cargo tree` do not agree, so nothing is claimed. Please report the project."},
	{"features.cudarc-pins", finding.Warning, "Two cudarc in one build were told different CUDA versions",
		"Pin them to one version, or let both ask the toolkit."},
	{"features.cudarc-version", finding.Error, "cudarc is told no CUDA version",
		"Its build script ends at that. Turn on one of its version features, such as cuda-13000, or cuda-version-from-build-system."},
	{"features.own-code-off", finding.Error, "The GPU crates are on, and the package's own code for them is off",
		"Ask for the package's own `cuda`, or let the feature that was asked for turn it on."},
	{"features.no-device-code", finding.Warning, "A GPU feature was asked for, and nothing shows that what was built uses the GPU",
		"Add the edge that the fix names, or prove what the program does: `gpubuild prove BIN -- ARGS`."},
	{"features.host-copy", finding.Note, "Only the copy for a build script or proc-macro has the feature",
		"That copy runs while building and is not linked into the program. Add the edge for the program's own copy."},
	{"features.by-file", finding.Note, "A file, not a feature, decides",
		"libtorch's own build decides whether CUDA is used: look at the library that is linked."},
	{"features.load-dynamic", finding.Note, "The library that is loaded decides",
		"ort loads ONNX Runtime when it starts: that library must be a CUDA build."},
	{"features.propagation", finding.Note, "A member does not pass its feature on to a dependency that has it, too",
		"`gpubuild features --lint --fix` writes the edge."},
	{"audit.fallback", finding.Error, "The program ended well although the driver had failed",
		"It fell back to the CPU and said nothing by its exit status. Let it fail where a GPU was asked for."},
	{"audit.unsure", finding.Warning, "It could not be told whether the program fails honestly",
		"See what it did in that mode: `gpubuild audit BIN -- ARGS`."},
	{"stale.found", finding.Error, "An artifact that cargo believes fresh was built by another tool",
		"Build by gpubuild, which cleans just that, or run the `cargo clean` that the message names."},
	{"stale.unrecorded", finding.Warning, "What the GPU packages were built with could not be written down",
		"Make the build directory one that may be written to. Until then each build looks at the device code, and builds anew what that " +
			"does not tell."},
	{"proof.not-used", finding.Error, "The program ran on the CPU",
		"The driver recorded no kernel of it. Look for a fallback in its output, and at `gpubuild features`."},
	{"proof.other-kernels", finding.Error, "The GPU was used, but by no kernel that was looked for",
		"Name the kernel with --kernel REGEX if one of those that ran is meant."},
	{"proof.unproved", finding.Error, "Not proven", "The message says what is missing."},
	{"proof.no-device", finding.Warning, "Not proven, because no GPU is here",
		"Prove it on a machine with one: `gpubuild prove BIN -- ARGS`."},
	{"toolchain.missing", finding.Error, "A component of the toolchain is missing",
		"`gpubuild doctor` names what is there; `gpubuild toolchain install` fetches a toolkit without admin rights."},
	{"toolchain.misfit", finding.Error, "Components of the toolchain do not fit together",
		"The message lists the candidates and the smallest change."},
	{"config.wrong", finding.Error, "A manifest or the configuration is wrong", "See `gpubuild help config`."},
	{"build.compile-error", finding.Error, "rustc refused the code", "`rustc --explain CODE` says what the error's code means."},
	{"build.failed", finding.Error, "The build failed", "`gpubuild explain LOG` names the first known cause in a build's log."},
	{"run.failed", finding.Error, "The program failed", "Its own exit code is passed on."},
	{"command.wrong", finding.Error, "The command line is wrong, or a file that it names cannot be used", "See `gpubuild VERB --help`."},
	{"gpubuild.failed", finding.Error, "gpubuild went no further", "The message says why."},
}

// RuleOf answers what an id means; one that is not in the table is described by its group.
func RuleOf(id string) Rule {
	for _, r := range rules {
		if r.ID == id {
			return r
		}
	}
	group, name, _ := strings.Cut(Plain(id), ".")
	switch group {
	case "explain":
		return Rule{id, finding.Error, "A known cause of a failed GPU build: " + name, "`gpubuild explain " + name +
			"` says more, with its source."}
	case "doctor":
		return Rule{id, finding.Warning, "A part of the machine: " + name, "`gpubuild doctor` says where was looked and what to do."}
	}
	return Rule{id, finding.Warning, orWord(Plain(id), "finding"), "See the message."}
}
