package ci

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"gpubuild/buildenv/exit"
)

// Kinds of row.
const (
	Compile = "compile" // needs no GPU: hosted runners, containers, link stubs
	Proof   = "proof"   // needs one: what a row has compiled is proven there
)

// Where a row's toolkit comes from.
const (
	Fetch  = "fetch"  // gpubuild fetches it, with link stubs in place of a driver
	Image  = "image"  // the container has it
	Runner = "runner" // the machine has it
	None   = "none"   // the crates need a driver only
)

// Values of the axis cuDNN that are not versions.
const (
	CUDNNAuto = "auto" // whatever comes with the toolkit, where the features need one
	CUDNNNone = "none"
)

// Axes are the values that rows are made of, or the filter that chooses some of them: then an empty axis takes every value.
type Axes struct {
	Features []string
	CUDA     []string
	CUDNN    []string
	Arch     []string
	Platform []string
	Profile  []string
}

// Spec is what a project says of its matrix; every axis has at least one value, except Arch.
type Spec struct {
	Axes
	Toolkit  string // Fetch or Runner: where toolkits come from that no image has
	Args     []string
	Runners  map[string][]string // labels by platform
	Images   map[string]string   // by CUDA version; Linux only
	Excludes []Axes
	Includes []Axes
	Places   []Place
	Lock     string                     // hash of Cargo.lock; empty when there is none
	Uses     func(features string) Uses // nil: every build uses every axis
}

// Place is a kind of machine on which rows are proven.
type Place struct {
	Axes       // which rows
	Name       string
	Runner     []string
	Wrapper    []string
	Driver     string
	Capability string
	Args       []string
}

// Uses says which axes the build of a feature set depends on.
type Uses struct{ CUDA, CUDNN, Arch bool }

// Row is one job. Its ID is a function of its other values alone: it stays the same when rows are added or removed.
type Row struct {
	ID         string   `json:"id"`
	Kind       string   `json:"kind"`
	Features   string   `json:"features"`
	CUDA       string   `json:"cuda"` // empty: the build uses no toolkit
	CUDNN      string   `json:"cudnn"`
	Arch       string   `json:"arch"` // empty: the build compiles for none, or gpubuild chooses
	Platform   string   `json:"platform"`
	Profile    string   `json:"profile"`
	Toolkit    string   `json:"toolkit"`
	Parts      []string `json:"parts,omitempty"` // of a fetched toolkit, in addition to the compiler
	Runner     []string `json:"runner"`
	Container  string   `json:"container"`
	NeedsGPU   bool     `json:"needs_gpu"`
	Packed     bool     `json:"archived,omitempty"` // of a row that compiles: a row proves it elsewhere
	Compile    string   `json:"compile,omitempty"`  // of a row that proves: the row that builds it
	Place      string   `json:"place,omitempty"`
	Driver     string   `json:"driver,omitempty"`
	Capability string   `json:"capability,omitempty"`
	Wrapper    []string `json:"wrapper,omitempty"`
	Args       []string `json:"args,omitempty"`       // of the proven program
	CargoArgs  []string `json:"cargo_args,omitempty"` // further words for cargo
	CacheKey   string   `json:"cache_key,omitempty"`
	Download   int64    `json:"download_bytes,omitempty"` // of the toolkit, as its publisher states it
	Seconds    float64  `json:"seconds,omitempty"`        // of its last successful run; absent: no result is known
}

// LeftOut is a row that cannot work, or that a limit or an exclude takes away.
type LeftOut struct {
	Row
	Why string `json:"why"`
}

// Matrix is what a Spec comes to.
type Matrix struct {
	Rows    []Row     `json:"rows"`
	LeftOut []LeftOut `json:"left_out"`
	Same    int       `json:"same"` // combinations that would build what another row builds
	places  []string  // where rows are to be proven
	idle    []int     // the [[matrix.exclude]] that match nothing, from 1
}

// Timed is the matrix with the seconds of each row's last successful run, by the row's ID.
func (m Matrix) Timed(seconds map[string]float64) Matrix {
	m.Rows = slices.Clone(m.Rows)
	for i := range m.Rows {
		m.Rows[i].Seconds = seconds[m.Rows[i].ID]
	}
	return m
}

// Of answers the rows of a kind.
func (m Matrix) Of(kind string) []Row {
	out := []Row{}
	for _, r := range m.Rows {
		if r.Kind == kind {
			out = append(out, r)
		}
	}
	return out
}

// Find answers the row of an ID; why is not empty when it is one that was left out.
func (m Matrix) Find(id string) (r Row, why string, ok bool) {
	for _, r := range m.Rows {
		if r.ID == id {
			return r, "", true
		}
	}
	for _, l := range m.LeftOut {
		if l.ID == id {
			return l.Row, l.Why, true
		}
	}
	return Row{}, "", false
}

// unproven lists the places that no row is left for: a proof was asked for there, and none would be made.
func (m Matrix) unproven() []string {
	return slices.DeleteFunc(slices.Clone(m.places), func(place string) bool {
		return slices.ContainsFunc(m.Rows, func(r Row) bool { return r.Place == place })
	})
}

// withheld is the reason of rows that need a machine of the user's own.
const withheld = "a pull request of another repository does not reach machines of yours"

// HostedOnly is the matrix for a stranger's pull request: what runs on a service's own machines.
func (m Matrix) HostedOnly() (Matrix, error) {
	known, err := KnownMachines()
	if err != nil {
		return m, err
	}
	out := Matrix{Rows: []Row{}, LeftOut: slices.Clone(m.LeftOut), Same: m.Same}
	for _, r := range m.Rows {
		if r.Kind == Compile && known.Hosted(r.Runner) != nil {
			r.Packed = false
			out.Rows = append(out.Rows, r)
		} else {
			out.LeftOut = append(out.LeftOut, LeftOut{r, withheld})
		}
	}
	return out, nil
}

// Withheld counts the rows that a stranger's pull request does not reach.
func (m Matrix) Withheld() int {
	n := 0
	for _, l := range m.LeftOut {
		if l.Why == withheld {
			n++
		}
	}
	return n
}

// excluded is the reason of rows that the user left out.
const excluded = "[[matrix.exclude]] says so"

// most is how many rows are made at all, before any is left out: more is a mistake in the axes, not a matrix.
const most = 10_000

// tooMany says that a matrix has more rows than somebody takes.
func tooMany(have, limit int, whose string) error {
	return exit.Errorf(exit.Config, "give fewer values of an axis, or leave combinations out: [[matrix.exclude]] in gpubuild.toml; "+
		"`gpubuild ci matrix` lists the rows", "the matrix has %d rows, and %s takes %d", have, whose, limit)
}

// Expand makes the rows of a specification. A combination whose build is that of another one, because it differs only in what the build
// does not use, makes no row of its own. judge says why a row cannot work (empty: it can), and fills in what only the caller knows.
func Expand(s Spec, judge func(*Row) (why string, err error)) (Matrix, error) {
	m := Matrix{Rows: []Row{}, LeftOut: []LeftOut{}}
	for _, p := range s.Places {
		m.places = append(m.places, p.Name)
	}
	sets := append([]Axes{s.Axes}, s.Includes...)
	total := 0
	for i := range sets {
		sets[i] = sets[i].or(s.Axes)
		if total += sets[i].count() * (1 + len(s.Places)); total > most {
			return m, tooMany(total, most, "gpubuild")
		}
	}
	seen, at := map[string]bool{}, map[string]int{} // at: where in m.Rows a row is that was not left out
	add := func(r Row) error {
		r.ID = r.id()
		if seen[r.ID] {
			if r.Kind == Compile {
				m.Same++
			}
			return nil
		}
		seen[r.ID] = true
		r.CacheKey = r.cacheKey(s.Lock)
		why, err := judge(&r)
		if err != nil {
			return err
		}
		compile, compiled := at[r.Compile]
		switch {
		case why != "":
		case r.Kind == Proof && !compiled:
			why = "the row that compiles it is left out"
		case r.Kind == Proof:
			m.Rows[compile].Packed = true
		}
		if why != "" {
			m.LeftOut = append(m.LeftOut, LeftOut{r, why})
			return nil
		}
		at[r.ID] = len(m.Rows)
		m.Rows = append(m.Rows, r)
		return nil
	}
	var excludedRows []Row
	combinations := s.rows()
	for i, x := range s.Excludes {
		if !slices.ContainsFunc(combinations, x.takes) {
			m.idle = append(m.idle, i+1)
		}
	}
	for i, set := range sets {
		for _, combination := range set.rows() {
			r := s.used(combination)
			r.CargoArgs = s.Args
			if i == 0 && slices.ContainsFunc(s.Excludes, func(x Axes) bool { return x.takes(combination) }) {
				r.ID = r.id()
				excludedRows = append(excludedRows, r)
				continue
			}
			r.Toolkit, r.Runner = s.Toolkit, s.Runners[r.Platform]
			if image := s.Images[r.CUDA]; image != "" && strings.HasPrefix(r.Platform, "linux-") {
				r.Toolkit, r.Container = Image, image
			}
			if err := add(r); err != nil {
				return m, err
			}
			for _, p := range s.Places {
				if !p.takes(combination) {
					continue
				}
				proof := r
				proof.Kind, proof.NeedsGPU, proof.Container, proof.Compile = Proof, true, "", r.id()
				proof.Place, proof.Runner, proof.Wrapper, proof.Driver, proof.Capability, proof.Args = p.Name, p.Runner, p.Wrapper,
					p.Driver, p.Capability, p.Args
				if err := add(proof); err != nil {
					return m, err
				}
			}
		}
	}
	for _, r := range excludedRows {
		if !seen[r.ID] {
			seen[r.ID] = true
			m.LeftOut = append(m.LeftOut, LeftOut{r, excluded})
		}
	}
	return m, nil
}

// used is a combination without the values that its build does not use.
func (s Spec) used(r Row) Row {
	if s.Uses == nil {
		return r
	}
	uses := s.Uses(r.Features)
	if !uses.CUDA {
		r.CUDA = ""
	}
	if !uses.CUDNN {
		r.CUDNN = CUDNNAuto
	}
	if !uses.Arch {
		r.Arch = ""
	}
	return r
}

// lists are the axes in the order of Row.values.
func (a *Axes) lists() [6]*[]string {
	return [...]*[]string{&a.Features, &a.CUDA, &a.CUDNN, &a.Arch, &a.Platform, &a.Profile}
}

// values are those of the axes.
func (r *Row) values() [6]*string {
	return [...]*string{&r.Features, &r.CUDA, &r.CUDNN, &r.Arch, &r.Platform, &r.Profile}
}

// or takes the axes that a lacks from b.
func (a Axes) or(b Axes) Axes {
	from := b.lists()
	for i, axis := range a.lists() {
		if len(*axis) == 0 {
			*axis = *from[i]
		}
	}
	return a
}

// count is the number of combinations; it does not overflow below most.
func (a Axes) count() int {
	n := 1
	for _, axis := range a.lists() {
		n *= max(1, len(*axis))
		if n > most {
			return most + 1
		}
	}
	return n
}

// rows makes the combinations, the first axis slowest.
func (a Axes) rows() []Row {
	if len(a.Arch) == 0 {
		a.Arch = []string{""}
	}
	out := []Row{{Kind: Compile}}
	for i, axis := range a.lists() {
		var next []Row
		for _, r := range out {
			for _, value := range *axis {
				*r.values()[i] = value
				next = append(next, r)
			}
		}
		out = next
	}
	return out
}

// takes says whether a row is one of those that a filter chooses.
func (a Axes) takes(r Row) bool {
	values := r.values()
	for i, axis := range a.lists() {
		if len(*axis) > 0 && !slices.Contains(*axis, *values[i]) {
			return false
		}
	}
	return true
}

// id is made of the row's values. Where a value cannot stand in a name as it is, a hash of all of them keeps two rows apart.
func (r Row) id() string {
	lossy := false
	slug := func(s string) string {
		var b strings.Builder
		for _, c := range s {
			switch {
			case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '.', c == '_', c == '-':
				b.WriteRune(c)
			case c == ',':
				b.WriteByte('+')
			default:
				b.WriteByte('-')
				lossy = true
			}
		}
		return b.String()
	}
	parts := []string{cmp.Or(slug(r.Features), "default")}
	if r.CUDA != "" {
		parts = append(parts, "cuda"+slug(r.CUDA))
	}
	if r.Kind == Proof {
		parts = append([]string{"prove", slug(r.Place)}, parts...)
	}
	if r.CUDNN != CUDNNAuto {
		parts = append(parts, "cudnn"+slug(r.CUDNN))
	}
	if r.Arch != "" {
		parts = append(parts, slug(r.Arch))
	}
	parts = append(parts, slug(r.Platform), slug(r.Profile))
	name := strings.Join(parts, "-")
	// A hyphen in a value could be one between values.
	ambiguous := strings.Contains(r.Features+r.Profile+r.Place, "-") || r.Features == "default"
	if lossy || ambiguous || len(name) > longest {
		sum := sha256.New()
		for _, v := range []string{r.Kind, r.Place, r.Features, r.CUDA, r.CUDNN, r.Arch, r.Platform, r.Profile} {
			fmt.Fprintf(sum, "%q\n", v)
		}
		name = strings.Trim(name[:min(len(name), longest)], "-.") + "-" + hex.EncodeToString(sum.Sum(nil)[:4])
	}
	return name
}

// longest is how much of a row's values stand in its name: it becomes part of paths, and of cache keys.
const longest = 100

// cacheKey names what the cache of a row that compiles may be used for: the same row, toolkit, arch and lock file. The lock file stands
// last:
// what another one left is better than nothing. A row that proves builds nothing.
func (r Row) cacheKey(lock string) string {
	if r.Kind == Proof {
		return ""
	}
	cuda := "cuda" + r.CUDA
	if r.CUDA == "" {
		cuda = "nocuda"
	}
	sum := sha256.Sum256([]byte(r.ID + "\x00" + r.Toolkit + "\x00" + r.Container))
	return strings.Join([]string{"gpubuild2", r.Platform, cuda, cmp.Or(r.Arch, "anyarch"), hex.EncodeToString(sum[:4]),
		cmp.Or(lock, "nolock")}, "-")
}

// cachePrefix begins the keys of the same row with other lock files.
func (r Row) cachePrefix() string { return r.CacheKey[:max(0, strings.LastIndexByte(r.CacheKey, '-'))] }

// toolkitKey names the cache of the toolkit that the row fetches, which all rows with that toolkit share; empty: it fetches none.
func (r Row) toolkitKey() string {
	if r.Toolkit != Fetch {
		return ""
	}
	return strings.Join(append([]string{"gpubuild-toolkit", r.Platform, "cuda" + r.CUDA}, r.Parts...), "-")
}

// kernelKey begins the names of the cache of compiled kernels, which rows with the same toolkit share; empty: the row compiles none.
func (r Row) kernelKey() string {
	if r.Kind == Proof || r.CUDA == "" {
		return ""
	}
	return strings.Join([]string{"gpubuild-kernels", r.Platform, "cuda" + r.CUDA}, "-")
}
