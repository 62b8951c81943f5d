package stale

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"unicode/utf8"
)

// Schema is the version of the record that this package writes, and the only one that it reads. It changes whenever the same
// machine would be recorded in other words: 2 counts content before names, and holds what was linked.
const Schema = 2

// Kept is how many entries of one package a record keeps: enough for every profile, target, feature set and toolchain that a
// person goes to and fro between, and few enough that a record stays small for years.
const Kept = 64

// Key says which unit of a build an entry is about. A package built with two feature sets, or for two profiles, has two.
type Key struct {
	PkgID    string `json:"pkg_id"`   // as cargo's messages name the package
	Features string `json:"features"` // joined with commas, sorted
	OutDir   string `json:"out_dir"`  // its build script's OUT_DIR; profile, target and cargo's own hash are part of it
}

// Input is one thing that went into a build and that cargo does not watch.
type Input struct {
	Name string `json:"name"` // "nvcc", "host compiler", "arch", or a variable's name
	// Value is what a person is told, the version first ("13.4 /x/bin/nvcc"), and what must be the same where there is no Hash.
	Value string `json:"value"`
	// Hash is the hash of the content where it was taken. It alone decides then: the same content elsewhere is the same, other
	// content at the same path is not.
	Hash string `json:"hash,omitempty"`
}

// Entry is what one unit was built with.
type Entry struct {
	Key
	Package string  `json:"package"` // the name that `cargo clean -p` understands
	Inputs  []Input `json:"inputs"`
	// ScriptRan is when its build script last ran, in nanoseconds, as the script's invoked.timestamp said when the entry was
	// made; 0: unknown.
	ScriptRan int64 `json:"script_ran"`
}

// Record is everything that is remembered of one build directory, oldest entry first. The zero value remembers nothing.
type Record struct {
	Schema  int     `json:"schema"`
	Entries []Entry `json:"entries"`
}

// UnreadableError says that a record's bytes are not a record of this Schema. The caller says so, goes on with an empty record,
// in which everything is unknown, and writes a good one after the build.
type UnreadableError struct{ Why string }

func (e *UnreadableError) Error() string { return "unreadable record of earlier builds: " + e.Why }

// Hint says what happens next.
func (e *UnreadableError) Hint() string {
	return "nothing to do: what the GPU packages were built with counts as unknown, and the record is written anew after this build"
}

// Decode reads a record; anything but a whole record of this Schema is an *UnreadableError.
func Decode(data []byte) (Record, error) {
	if len(bytes.TrimSpace(data)) == 0 {
		return Record{}, &UnreadableError{Why: "it is empty"}
	}
	// The schema first: a record of another one may have any shape.
	var head struct {
		Schema *int `json:"schema"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return Record{}, &UnreadableError{Why: err.Error()}
	}
	switch {
	case head.Schema == nil:
		return Record{}, &UnreadableError{Why: "it names no schema"}
	case *head.Schema != Schema:
		return Record{}, &UnreadableError{Why: fmt.Sprintf("it is of schema %d, this gpubuild knows %d", *head.Schema, Schema)}
	}
	var r Record
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil {
		return Record{}, &UnreadableError{Why: err.Error()}
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return Record{}, &UnreadableError{Why: "something follows its end"}
	}
	if err := r.check(); err != nil {
		return Record{}, &UnreadableError{Why: err.Error()}
	}
	return r, nil
}

// Encode writes the record as Decode reads it.
func (r Record) Encode() ([]byte, error) {
	out := Record{Schema: Schema, Entries: make([]Entry, 0, len(r.Entries))}
	for _, e := range r.Entries {
		out.Entries = append(out.Entries, e.tidy())
	}
	if err := out.check(); err != nil {
		return nil, fmt.Errorf("record of this build: %w", err)
	}
	data, err := json.MarshalIndent(out, "", " ")
	if err != nil {
		return nil, err
	}
	return append(data, '\n'), nil
}

func (r Record) check() error {
	for i, e := range r.Entries {
		if e.PkgID == "" || e.Package == "" {
			return fmt.Errorf("entry %d names no package", i+1)
		}
		seen := make(map[string]bool, len(e.Inputs))
		for _, in := range e.Inputs {
			if in.Name == "" || seen[in.Name] {
				return fmt.Errorf("entry %d (%s) has an input without a name, or %q twice", i+1, e.Package, in.Name)
			}
			seen[in.Name] = true
		}
	}
	return nil
}

// tidy answers the entry with its text as JSON can carry it.
func (e Entry) tidy() Entry {
	e.Key = e.Key.tidy()
	e.Package = text(e.Package)
	e.Inputs = tidy(e.Inputs)
	return e
}

func (k Key) tidy() Key { return Key{text(k.PkgID), text(k.Features), text(k.OutDir)} }

func tidy(inputs []Input) []Input {
	out := make([]Input, 0, len(inputs))
	for _, in := range inputs {
		out = append(out, Input{text(in.Name), text(in.Value), text(in.Hash)})
	}
	return out
}

// text quotes what is not UTF-8. JSON would put a replacement character for each such byte: the value read back would differ from
// the one on the machine for ever, and its package would be rebuilt every time.
func text(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return strconv.QuoteToASCII(s)
}

// Of lists what is recorded of a package with a feature set, whatever its OUT_DIR, oldest first. Before a build only cargo knows
// the OUT_DIR to come; these are those of earlier builds.
func (r Record) Of(pkgID, features string) []Entry {
	var found []Entry
	for _, e := range r.Entries {
		if e.PkgID == text(pkgID) && e.Features == text(features) {
			found = append(found, e)
		}
	}
	return found
}

// Merge answers the record with entries put in, each in place of the one with the same Key. Other keys stay, so that whoever goes
// to and fro between feature sets or profiles is remembered in all of them, up to the newest Kept of each package.
func (r Record) Merge(entries []Entry) Record {
	all := make([]Entry, 0, len(r.Entries)+len(entries))
	for _, list := range [][]Entry{r.Entries, entries} {
		for _, e := range list {
			all = append(all, e.tidy())
		}
	}
	// From the newest to the oldest; then turned round.
	kept, seen, count := []Entry{}, map[Key]bool{}, map[string]int{}
	for i := len(all) - 1; i >= 0; i-- {
		e := all[i]
		if seen[e.Key] || count[e.Package] >= Kept {
			continue
		}
		seen[e.Key] = true
		count[e.Package]++
		kept = append(kept, e)
	}
	for i, j := 0, len(kept)-1; i < j; i, j = i+1, j-1 {
		kept[i], kept[j] = kept[j], kept[i]
	}
	return Record{Schema: Schema, Entries: kept}
}

// Without answers the record without what it says of some units.
func (r Record) Without(keys []Key) Record {
	gone := map[Key]bool{}
	for _, k := range keys {
		gone[k.tidy()] = true
	}
	out := Record{Schema: r.Schema}
	for _, e := range r.Entries {
		if !gone[e.Key.tidy()] {
			out.Entries = append(out.Entries, e)
		}
	}
	return out
}

// Belies says whether the record would be believed of one of these units and tells other inputs than it was built with. An entry
// of an earlier run of a script is void by itself (see Compare); where a clock is coarse, was set back or tells nothing, two runs
// have one time.
func (r Record) Belies(built []Entry) bool {
	now := make(map[Key]Entry, len(built))
	for _, e := range built {
		now[e.Key.tidy()] = e
	}
	for _, old := range r.Entries {
		if e, ok := now[old.Key.tidy()]; ok && old.ScriptRan == e.ScriptRan && len(differences(old.Inputs, e.Inputs)) > 0 {
			return true
		}
	}
	return false
}
