package explain

import (
	"cmp"
	"slices"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/lazyregexp"
)

// Facts is what is known of the machine and of the build that failed, by name. What is not known is not there, or empty.
type Facts map[string]string

// Names that a rule's texts may use in addition to the groups of its own regular expression; the caller finds them out.
const (
	Again        = "again"         // the command that failed, up to its --
	CUDA         = "cuda"          // version of the toolkit that is used: 12.4
	Toolkit      = "toolkit"       // its root
	ArchRange    = "arch-range"    // what the toolkit compiles for: sm_75 to sm_121
	Target       = "target"        // what is built for: sm_89
	TargetOrigin = "target-origin" // who said so
	GPU          = "gpu"           // the GPU here, with its capability
	GPUArch      = "gpu-arch"      // what fits it: sm_89
	Driver       = "driver"        // version of the driver
	DriverCUDA   = "driver-cuda"   // newest CUDA that it takes PTX of
	Cudarc       = "cudarc"        // version of the locked cudarc
	CudarcMax    = "cudarc-max"    // newest CUDA that it knows
	CUDNN        = "cudnn"         // version of the cuDNN that is used
	CUDNNRoot    = "cudnn-root"    // where it is
	Binary       = "binary"        // the program that was built
	Images       = "images"        // the device code in it
	LibraryDir   = "library-dir"   // a directory here that holds the library of which the line speaks
	NoDriver     = "no-driver"     // a whole sentence: that there is no driver
)

var factNames = []string{
	Again, CUDA, Toolkit, ArchRange, Target, TargetOrigin, GPU, GPUArch, Driver, DriverCUDA, Cudarc, CudarcMax, CUDNN, CUDNNRoot,
	Binary, Images, LibraryDir, NoDriver,
}

// named is a {name} in a rule's text.
var named = lazyregexp.New(`\{([a-z][a-z0-9-]*)\}`)

// Names lists the facts that a rule can use, so that only those need be found out.
func (r *Rule) Names() []string {
	var out []string
	for _, text := range slices.Concat(r.Commands, r.Here) {
		for _, m := range named.FindAllStringSubmatch(text, -1) {
			if slices.Contains(factNames, m[1]) && !slices.Contains(out, m[1]) {
				out = append(out, m[1])
			}
		}
	}
	return out
}

// Words are a rule's texts with what the line named and what is known here.
type Words struct {
	Cause   string   `json:"cause"`
	Fix     string   `json:"fix"`
	Command string   `json:"command,omitempty"`
	Here    []string `json:"here,omitempty"` // about this machine
}

// forShell is what may stand in a command: a log's text only where it is a word without a meaning to a shell, and no flag.
func forShell(captured string) string { return plainWord.FindString(captured) }

var plainWord = lazyregexp.New(`^[\w.+@/:][\w.+@/:-]*$`)

// Words fills a rule's texts in. In cause and fix a {name} without a value becomes NAME, for a reader to fill in; so does in fix one whose
// value a shell could take for more than a word. Sentences about the machine, and (with any facts) commands, are left out when they have
// such a name.
func (f Found) Words(facts Facts) Words {
	fill := func(text string, shell bool) (string, bool) {
		whole := true
		text = named.ReplaceAllStringFunc(text, func(n string) string {
			n = strings.Trim(n, "{}")
			v, fact := f.Values[n], facts[n]
			if shell && n != "get" {
				v = forShell(v)
			}
			if shell && n != Again && fact != "" {
				fact = buildenv.PosixWords(fact)
			}
			if v = cmp.Or(v, fact); v == "" {
				whole, v = false, strings.ToUpper(n)
			}
			return v
		})
		return text, whole
	}
	var w Words
	w.Cause, _ = fill(f.Cause, false)
	fix := f.Fix
	switch {
	case f.onWindows:
		fix = cmp.Or(f.Windows, fix)
	case facts == nil && f.Windows != "": // the rule alone, of no log
		fix += " On Windows: " + f.Windows
	}
	w.Fix, _ = fill(fix, true)
	if text, whole := fill(f.Command, true); whole || facts == nil {
		w.Command = text
	}
	for _, c := range f.Commands {
		if text, whole := fill(c, true); whole {
			w.Command = text
			break
		}
	}
	for _, h := range f.Here {
		if text, whole := fill(h, false); whole {
			w.Here = append(w.Here, text)
		}
	}
	return w
}
