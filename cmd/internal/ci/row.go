package ci

import (
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
	Proof   = "proof"   // needs one: it is built, run and proven there
)

// Where a row's toolkit comes from.
const (
	Fetch  = "fetch"  // gpubuild fetches it, with link stubs in place of a driver
	Image  = "image"  // the container has it
	Runner = "runner" // the machine has it
	None   = "none"   // the crates need a driver only
)

// Values of the axis cuDNN beside versions.
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
	Lock     string // hash of Cargo.lock; empty when there is none
}

// Place is a kind of machine on which rows are proven.
type Place struct {
	Axes       // which rows
	Name       string
	Runner     []string
	Wrapper    []string
	Driver     string
	Capability string
	Toolkit    string // Fetch or Runner; empty: as the Spec says
	Args       []string
}

// Row is one job. Its ID is a function of its other values alone: it stays the same when rows are added or taken away.
type Row struct {
	ID         string   `json:"id"`
	Kind       string   `json:"kind"`
	Features   string   `json:"features"`
	CUDA       string   `json:"cuda"`
	CUDNN      string   `json:"cudnn"`
	Arch       string   `json:"arch"` // empty: gpubuild chooses by the machine
	Platform   string   `json:"platform"`
	Profile    string   `json:"profile"`
	Toolkit    string   `json:"toolkit"`
	Parts      []string `json:"parts,omitempty"` // of a fetched toolkit, beside the compiler
	Runner     []string `json:"runner"`
	Container  string   `json:"container"`
	NeedsGPU   bool     `json:"needs_gpu"`
	Place      string   `json:"place,omitempty"`
	Driver     string   `json:"driver,omitempty"`
	Capability string   `json:"capability,omitempty"`
	Wrapper    []string `json:"wrapper,omitempty"`
	Args       []string `json:"args,omitempty"`       // of the proven program
	CargoArgs  []string `json:"cargo_args,omitempty"` // further words for cargo
	CacheKey   string   `json:"cache_key"`
	Estimate   Estimate `json:"estimate"`
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
func (m Matrix) unproven() (places []string) {
	proven := map[string]bool{}
	for _, r := range m.Rows {
		proven[r.Place] = true
	}
	for _, l := range m.LeftOut {
		if l.Kind == Proof && !proven[l.Place] {
			proven[l.Place] = true
			places = append(places, l.Place)
		}
	}
	return places
}

// excluded is the reason of rows that the user left out.
const excluded = "[[matrix.exclude]] says so"

// most is how many rows are made at all, before any is left out: more is a mistake in the axes, not a matrix.
const most = 10_000

// TooManyError says that a matrix has more rows than somebody takes.
type TooManyError struct {
	Have, Limit int
	Whose       string // whose limit
}

func (e *TooManyError) Error() string {
	return fmt.Sprintf("the matrix has %d rows, and %s takes %d", e.Have, e.Whose, e.Limit)
}

// ExitCode is exit.Config.
func (e *TooManyError) ExitCode() int { return exit.Config }

// Hint says what a user can do about it.
func (e *TooManyError) Hint() string {
	return "give fewer values of an axis, or leave combinations out: [[matrix.exclude]] in gpubuild.toml; `gpubuild ci matrix` lists " +
		"the rows"
}

// Expand makes the rows of a specification. judge says why a row cannot work (empty: it can), and fills in what only the caller knows.
func Expand(s Spec, judge func(*Row) (why string, err error)) (Matrix, error) {
	m := Matrix{Rows: []Row{}, LeftOut: []LeftOut{}}
	sets := append([]Axes{s.Axes}, s.Includes...)
	total := 0
	for i := range sets {
		sets[i] = sets[i].or(s.Axes)
		if total += sets[i].count() * (1 + len(s.Places)); total > most {
			return m, &TooManyError{Have: total, Limit: most, Whose: "gpubuild"}
		}
	}
	seen := map[string]bool{}
	add := func(r Row) error {
		r.ID = r.id()
		if seen[r.ID] {
			return nil // an include that repeats a row
		}
		seen[r.ID] = true
		r.CacheKey = r.cacheKey(s.Lock)
		why, err := judge(&r)
		if err != nil {
			return err
		}
		if why != "" {
			m.LeftOut = append(m.LeftOut, LeftOut{r, why})
		} else {
			m.Rows = append(m.Rows, r)
		}
		return nil
	}
	for i, set := range sets {
		for _, r := range set.rows() {
			r.CargoArgs = s.Args
			if i == 0 && slices.ContainsFunc(s.Excludes, func(x Axes) bool { return x.takes(r) }) {
				r.ID = r.id()
				if !seen[r.ID] {
					m.LeftOut = append(m.LeftOut, LeftOut{r, excluded})
				}
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
				if !p.takes(r) {
					continue
				}
				proof := r
				proof.Kind, proof.NeedsGPU, proof.Container, proof.Toolkit = Proof, true, "", s.Toolkit
				if p.Toolkit != "" {
					proof.Toolkit = p.Toolkit
				}
				proof.Place, proof.Runner, proof.Wrapper, proof.Driver, proof.Capability, proof.Args = p.Name, p.Runner, p.Wrapper,
					p.Driver, p.Capability, p.Args
				if err := add(proof); err != nil {
					return m, err
				}
			}
		}
	}
	return m, nil
}

// or takes the axes that a lacks from b.
func (a Axes) or(b Axes) Axes {
	for _, p := range []struct {
		to   *[]string
		from []string
	}{{&a.Features, b.Features}, {&a.CUDA, b.CUDA}, {&a.CUDNN, b.CUDNN}, {&a.Arch, b.Arch}, {&a.Platform, b.Platform},
		{&a.Profile, b.Profile}} {
		if len(*p.to) == 0 {
			*p.to = p.from
		}
	}
	return a
}

// count is the number of combinations; it does not overflow below most.
func (a Axes) count() int {
	n := 1
	for _, axis := range [][]string{a.Features, a.CUDA, a.CUDNN, a.Arch, a.Platform, a.Profile} {
		n *= max(1, len(axis))
		if n > most {
			return most + 1
		}
	}
	return n
}

// rows makes the combinations, the first axis slowest.
func (a Axes) rows() []Row {
	arch := a.Arch
	if len(arch) == 0 {
		arch = []string{""}
	}
	var out []Row
	for _, features := range a.Features {
		for _, cuda := range a.CUDA {
			for _, cudnn := range a.CUDNN {
				for _, arch := range arch {
					for _, platform := range a.Platform {
						for _, profile := range a.Profile {
							out = append(out, Row{Kind: Compile, Features: features, CUDA: cuda, CUDNN: cudnn, Arch: arch,
								Platform: platform, Profile: profile})
						}
					}
				}
			}
		}
	}
	return out
}

// takes says whether a row is one of those that a filter chooses.
func (a Axes) takes(r Row) bool {
	for _, axis := range []struct {
		values []string
		has    string
	}{{a.Features, r.Features}, {a.CUDA, r.CUDA}, {a.CUDNN, r.CUDNN}, {a.Arch, r.Arch}, {a.Platform, r.Platform}, {a.Profile, r.Profile}} {
		if len(axis.values) > 0 && !slices.Contains(axis.values, axis.has) {
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
	parts := []string{slug(r.Features), "cuda" + slug(r.CUDA)}
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
	if ambiguous := strings.Contains(r.Features+r.Profile+r.Place, "-"); lossy || ambiguous || len(name) > longest || r.Features == "" {
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

// cacheKey names what a row's cache may be used for: the same toolkit, arch, driver family and lock file, and the same row.
func (r Row) cacheKey(lock string) string {
	if lock == "" {
		lock = "nolock"
	}
	arch := r.Arch
	if arch == "" {
		arch = "anyarch"
	}
	sum := sha256.Sum256([]byte(r.ID + "\x00" + r.Toolkit + "\x00" + r.Container))
	return strings.Join([]string{"gpubuild1", r.Platform, "cuda" + r.CUDA, arch, r.family(), lock, hex.EncodeToString(sum[:4])}, "-")
}

// family is the driver's branch, the first number of its version.
func (r Row) family() string {
	if r.Kind != Proof {
		return "nodriver"
	}
	major, _, _ := strings.Cut(r.Driver, ".")
	if major == "" {
		return "anydriver"
	}
	return "r" + major
}
