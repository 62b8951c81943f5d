// Package gpu is the vocabulary of devices and device code, and the pure rules between them: what a device can do (Capability), what
// code is built for (Arch), whether code for one runs on the other (Runs). It looks at no machine.
package gpu

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Version is a CUDA version: that of a toolkit, or the newest one that a driver supports. The zero value means unknown.
type Version struct{ Major, Minor int }

// ParseVersion reads "13.4", "13.4.92" or "V13.4.92"; what follows the minor number is not part of the rules.
func ParseVersion(s string) (Version, error) {
	parts := strings.SplitN(strings.TrimPrefix(strings.TrimSpace(s), "V"), ".", 3)
	major, err := strconv.Atoi(parts[0])
	if err != nil || major < 0 {
		return Version{}, fmt.Errorf("%.200q is not a CUDA version such as 13.4", s)
	}
	minor := 0
	if len(parts) > 1 {
		if minor, err = strconv.Atoi(parts[1]); err != nil || minor < 0 {
			return Version{}, fmt.Errorf("%.200q is not a CUDA version such as 13.4", s)
		}
	}
	return Version{major, minor}, nil
}

// Numbers reads a version such as "580.65.06", to be compared with slices.Compare; nil when there is anything else in it.
func Numbers(s string) []int {
	var out []int
	for part := range strings.SplitSeq(strings.TrimSpace(s), ".") {
		n, err := strconv.Atoi(part)
		if err != nil || n < 0 {
			return nil
		}
		out = append(out, n)
	}
	return out
}

// Versioned lists the names that are a prefix, in any letter case, and a version, the newest first.
func Versioned(names []string, prefix string) []string {
	out := slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		return len(name) < len(prefix) || !strings.EqualFold(name[:len(prefix)], prefix) || Numbers(name[len(prefix):]) == nil
	})
	slices.SortStableFunc(out, func(a, b string) int { return slices.Compare(Numbers(b[len(prefix):]), Numbers(a[len(prefix):])) })
	return out
}

// VersionOf reads the form of CUDA_VERSION in cuda.h and of cuDriverGetVersion: major*1000 + minor*10.
func VersionOf(n int) Version { return Version{n / 1000, n % 1000 / 10} }

func (v Version) String() string {
	if v.IsZero() {
		return "unknown"
	}
	return fmt.Sprintf("%d.%d", v.Major, v.Minor)
}

func (v Version) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

func (v *Version) UnmarshalText(b []byte) (err error) {
	if string(b) == "unknown" {
		*v = Version{}
		return nil
	}
	*v, err = ParseVersion(string(b))
	return err
}

// IsZero says that the version is unknown.
func (v Version) IsZero() bool { return v == Version{} }

// Compare is negative, zero or positive as v is older than, the same as or newer than w.
func (v Version) Compare(w Version) int {
	if v.Major != w.Major {
		return v.Major - w.Major
	}
	return v.Minor - w.Minor
}

// Capability is the compute capability of a device, such as 8.9. The zero value means unknown.
type Capability struct{ Major, Minor int }

// ParseCapability reads "8.9" as nvidia-smi writes it, or "89" and "120" as CUDA_COMPUTE_CAP has it (the last digit is the minor one).
// A trailing "a" or "f" is accepted and dropped.
func ParseCapability(s string) (Capability, error) {
	t := strings.TrimRight(strings.TrimSpace(s), "af")
	major, minor, dotted := strings.Cut(t, ".")
	if !dotted && len(t) >= 2 {
		major, minor = t[:len(t)-1], t[len(t)-1:]
	}
	a, err1 := strconv.Atoi(major)
	b, err2 := strconv.Atoi(minor)
	if err1 != nil || err2 != nil || a < 1 || a > 99 || b < 0 || b > 9 {
		return Capability{}, fmt.Errorf("%.200q is not a compute capability such as 8.9 or 89", s)
	}
	return Capability{a, b}, nil
}

func (c Capability) String() string {
	if c.IsZero() {
		return "unknown"
	}
	return fmt.Sprintf("%d.%d", c.Major, c.Minor)
}

func (c Capability) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

func (c *Capability) UnmarshalText(b []byte) (err error) {
	if string(b) == "unknown" {
		*c = Capability{}
		return nil
	}
	*c, err = ParseCapability(string(b))
	return err
}

// Digits is the form of CUDA_COMPUTE_CAP: 8.9 is "89", 12.0 is "120".
func (c Capability) Digits() string { return fmt.Sprintf("%d%d", c.Major, c.Minor) }

// IsZero says that the capability is unknown.
func (c Capability) IsZero() bool { return c == Capability{} }

// Compare is negative, zero or positive as c is lower than, the same as or higher than d.
func (c Capability) Compare(d Capability) int {
	if c.Major != d.Major {
		return c.Major - d.Major
	}
	return c.Minor - d.Minor
}

// Arch is what code is built for: sm_89, sm_90a, compute_89.
type Arch struct {
	Capability Capability
	Suffix     string // "a" (that very architecture), "f" (its family), or nothing
	Virtual    bool   // compute_NN: PTX, compiled by the driver at load time
}

// ParseArch reads "sm_90a", "compute_89", and bare "90a" as real.
func ParseArch(s string) (Arch, error) {
	a := Arch{}
	t := strings.TrimSpace(s)
	if rest, ok := strings.CutPrefix(t, "compute_"); ok {
		a.Virtual, t = true, rest
	} else {
		t = strings.TrimPrefix(t, "sm_")
	}
	for _, suffix := range []string{"a", "f"} {
		if rest, ok := strings.CutSuffix(t, suffix); ok {
			a.Suffix, t = suffix, rest
			break
		}
	}
	c, err := ParseCapability(t)
	if err != nil {
		return Arch{}, fmt.Errorf("%.200q is not an architecture such as sm_89 or compute_89", s)
	}
	a.Capability = c
	return a, nil
}

// ParseArchs reads one architecture or a list such as "sm_80,sm_90", and returns it from the lowest on.
func ParseArchs(s string) (list []Arch, err error) {
	for word := range strings.SplitSeq(s, ",") {
		a, err := ParseArch(word)
		if err != nil {
			return nil, err
		}
		if first := map[string]int{"a": 9, "f": 10}[a.Suffix]; a.Capability.Major < first { // PTX ISA, .target
			return nil, fmt.Errorf("%.200q is no architecture: the suffix %s begins with sm_%d0", word, a.Suffix, first)
		}
		list = append(list, Arch{Capability: a.Capability, Suffix: a.Suffix})
	}
	slices.SortFunc(list, func(a, b Arch) int {
		return cmp.Or(a.Capability.Compare(b.Capability), strings.Compare(a.Suffix, b.Suffix))
	})
	return slices.Compact(list), nil
}

// Archs words a list as ParseArchs reads it.
func Archs(list []Arch) string {
	var words []string
	for _, a := range list {
		words = append(words, a.String())
	}
	return strings.Join(words, ",")
}

func (a Arch) String() string {
	kind := "sm_"
	if a.Virtual {
		kind = "compute_"
	}
	return kind + a.Capability.Digits() + a.Suffix
}

func (a Arch) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

func (a *Arch) UnmarshalText(b []byte) (err error) { *a, err = ParseArch(string(b)); return err }

// Answer is whether code runs somewhere. It is Yes only where that is certain.
type Answer string

// The answers, from the best to the worst.
const (
	Yes        Answer = "yes"
	Translated Answer = "translated" // the driver compiles PTX when the program loads it
	Unknown    Answer = "unknown"
	No         Answer = "no"
)

// Worse is the worse one of two answers.
func (a Answer) Worse(b Answer) Answer {
	order := []Answer{Yes, Translated, Unknown, No}
	return order[max(slices.Index(order, a), slices.Index(order, b))]
}

// IsTegra reports whether a capability is that of Tegra (Jetson, DRIVE, Thor), which takes machine code of its own only. Source: CUDA
// programming guide, "Binary Compatibility"; sm_80 code was measured not to run on 8.7 (jax-ml/jax#40492).
func (c Capability) IsTegra() bool {
	return slices.Contains([]Capability{{5, 3}, {6, 2}, {7, 2}, {8, 7}, {10, 1}, {11, 0}}, c)
}

// Runs reports whether code for a runs on a device of capability c, and if not, why. It knows nothing of drivers.
// Source: CUDA programming guide, "Application compatibility" and "Family-specific architecture features": a cubin runs on its own major
// capability from its minor up, PTX on any capability from its own up, "a" code only on that very capability, "f" code within its major
// family from its minor up.
func (a Arch) Runs(c Capability) (Answer, string) {
	portable := a.Virtual && a.Suffix == ""
	switch code := a.Capability; {
	case code.IsZero() || c.IsZero():
		return Unknown, "its architecture is not known"
	case code == Capability{10, 1} && c == Capability{11, 0}:
		return Unknown, "CUDA 13.0 renamed sm_101 to sm_110; whether older code loads there is not known"
	case !portable && code != c && code.Major == c.Major && (code == Capability{8, 8} || c == Capability{8, 8}):
		return Unknown, "whether 8.8 is a Tegra is not known"
	case a.Suffix == "a" && code != c:
		return No, fmt.Sprintf("%s code runs on %s only", a, code)
	case code == c, portable && c.Compare(code) > 0:
		return Yes, ""
	case code.Major != c.Major || c.Minor < code.Minor:
		return No, fmt.Sprintf("%s code does not run on %s", a, c)
	case !a.Virtual && (code.IsTegra() || c.IsTegra()):
		return No, fmt.Sprintf("%s code does not run on %s: Tegra takes machine code of its own only", a, c)
	}
	return Yes, ""
}

// Device is one GPU as its driver describes it.
type Device struct {
	Index      int        `json:"index"`
	UUID       string     `json:"uuid"` // GPU-xxxxxxxx-…
	Name       string     `json:"name"`
	Capability Capability `json:"capability"`
	Memory     uint64     `json:"memory"` // bytes; 0 when unknown
	MIG        []Instance `json:"mig,omitempty"`
}

// Instance is a slice of a GPU (MIG), which programs see as a device of its own.
type Instance struct {
	UUID   string `json:"uuid"` // MIG-xxxxxxxx-…
	Name   string `json:"name"`
	Memory uint64 `json:"memory"` // bytes; 0 when unknown
}

// Driver is the kernel driver of a machine. The zero value means that there is none.
type Driver struct {
	Version string  `json:"version"`           // such as 580.65.06
	CUDA    Version `json:"cuda"`              // newest CUDA version that it supports; zero: not known
	AtLeast Version `json:"at_least,omitzero"` // where CUDA is not known: a version that it supports, and perhaps newer ones
	Origin  string  `json:"origin"`            // where the version was read
}

// Supports words what is known of the newest CUDA version.
func (d Driver) Supports() string {
	if d.CUDA.IsZero() && !d.AtLeast.IsZero() {
		return "at least CUDA " + d.AtLeast.String()
	}
	return "CUDA " + d.CUDA.String()
}
