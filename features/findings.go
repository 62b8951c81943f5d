package features

import (
	"fmt"
	"slices"
	"strings"

	"gpubuild/buildenv/finding"
	"gpubuild/features/catalog"
	"gpubuild/features/edit"
	"gpubuild/features/manifest"
)

// Severities of findings.
const (
	Error   = finding.Error
	Warning = finding.Warning
	Note    = finding.Note
)

// Ids of findings.
const (
	IDUnreached    = "features.unreached"       // a requested GPU feature leaves linked GPU crates off, and nothing else could use the GPU
	IDUndecided    = "features.undecided"       // only what the build makes shows what a requested feature does
	IDUnknown      = "features.unknown"         // cargo gives no unit graph
	IDPartial      = "features.partial"         // some linked GPU crates are on, and others whose code is missed are off
	IDConditional  = "features.conditional"     // only with another feature, or for another target, does the feature enable GPU code
	IDNoDeviceCode = "features.no-device-code"  // after the build: nothing in the program uses a GPU
	IDNotInProgram = "features.not-in-program"  // … kernels were compiled, and the program has nothing of them
	IDBorrowed     = "features.borrowed"        // GPU crates are on in a program by what is built with it, and not by its own feature
	IDRefused      = "features.refused-edge"    // a feature names what its package does not have
	IDPins         = "features.cudarc-pins"     // one cudarc is set to two CUDA versions
	IDVariable     = "features.cudarc-variable" // CUDARC_CUDA_VERSION and a feature name two CUDA versions
	IDNoVersion    = "features.cudarc-version"  // a cudarc without a CUDA version
	IDByFile       = "features.by-file"         // a file, not a feature, decides (libtorch)
	IDFileCPU      = "features.by-file-cpu"     // … and it is one without CUDA
	IDNoArchive    = "features.no-archive"      // a library is downloaded, and for this target there is none with CUDA
)

// Finding is one thing that a user should know.
type Finding struct {
	finding.Finding
	Root  string           `json:"root,omitempty"`  // the root it was found for
	Lacks []MissingFeature `json:"lacks,omitempty"` // the features of linked crates that it is about
	// the edges that fix it, in the order in which they can be written one by one; none: no manifest of the workspace does
	Edits []edit.Edit `json:"edits,omitempty"`
	Ask   []string    `json:"ask,omitempty"` // features that fix it when they are requested, too, as --features takes them
	Else  string      `json:"-"`             // what to do where the fix is not what the user means
	Later bool        `json:"-"`             // the build decides
}

// MissingFeature is a feature that a linked crate has not, although the request means it.
type MissingFeature struct {
	Crate   string `json:"crate"`
	Version string `json:"version"`
	Feature string `json:"feature"`

	others []string // features that do the same
	wanted bool     // Version is only what a manifest asks for
}

// Of reports whether it is a package's.
func (l MissingFeature) Of(id manifest.PkgID) bool {
	return id.Name == l.Crate && (l.wanted || id.Version == l.Version)
}

func (l MissingFeature) String() string {
	return fmt.Sprintf("`%s` of %s %s", l.Feature, l.Crate, l.Version)
}

// On reports whether features of the crate make up for it.
func (l MissingFeature) On(features []string) bool {
	return slices.Contains(features, l.Feature) || catalog.Overlap(l.others, features)
}

// orElse stands between edges of which one is meant.
const orElse = " # or: "

// Choice reports whether one of several edges fixes it: which, only the user knows.
func (f *Finding) Choice() bool { return strings.Contains(f.Fix, orElse) }

// newFinding has the severity that the table of findings gives its id.
func newFinding(id, format string, a ...any) Finding {
	f := Finding{Finding: finding.New(id, fmt.Sprintf(format, a...))}
	f.Evidence = "cargo's unit graph"
	return f
}

// become gives a finding another id, with the severity of that.
func (f *Finding) become(id string) { f.ID, f.Severity = id, finding.RuleOf(id).Severity }

// OneOfACause leaves out every finding that another one repeats, or whose edits all belong to another one that is as grave: what one edge
// of a member lacks is found again for each program that links it.
func OneOfACause(list []Finding) []Finding {
	covers := func(a, b *Finding) bool {
		same := a.ID == b.ID && a.Severity == b.Severity && a.Path == b.Path && a.Fix == b.Fix && a.Message == b.Message
		return same || len(b.Edits) > 0 && (a.Severity == Error || b.Severity != Error) &&
			!slices.ContainsFunc(b.Edits, func(e edit.Edit) bool {
				return !slices.ContainsFunc(a.Edits, func(o edit.Edit) bool {
					return o.Manifest == e.Manifest && o.Feature == e.Feature &&
						!slices.ContainsFunc(e.Add, func(s string) bool { return !slices.Contains(o.Add, s) })
				})
			})
	}
	out := []Finding{}
	for i := range list {
		again := false
		for k := range list {
			again = again || k != i && covers(&list[k], &list[i]) && (k < i || !covers(&list[i], &list[k]))
		}
		if !again {
			out = append(out, list[i])
		}
	}
	return out
}
