// Package stale compares what an artifact was built with to what it would be built with now, and device code to what was asked for.
// It is pure: it reads no file, deletes nothing and runs nothing.
//
// It owns the format of the stamp, the small file next to a build script's OUT_DIR that says what its content was built with.
package stale

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Schema is the version of the stamp that this package writes, and the only one that it reads.
const Schema = 5

// StampFile is the name of a stamp; it is in the directory that holds the OUT_DIR.
const StampFile = "gpubuild-stamp.json"

// Input is one thing that goes into a build and that cargo does not watch.
type Input struct {
	Name string `json:"name"` // "nvcc", "host compiler", "arch", or a variable's name
	// Value is what a person is shown, the version first ("13.4 /x/bin/nvcc"). It decides where there is no Hash.
	Value string `json:"value"`
	// Hash is that of the content. Where both sides have one it alone decides: the same content elsewhere is the same.
	Hash string `json:"hash,omitempty"`
}

// Stamp says what the content of an OUT_DIR was built with, and what that content was. It holds only as long as both agree: a script
// that another cargo has run since left other content, or the same, which is as good.
type Stamp struct {
	Schema   int      `json:"schema"`
	PkgID    string   `json:"pkg_id"`
	Features []string `json:"features"` // the feature sets with which the script may have run, each joined with commas
	Ran      int64    `json:"ran"`      // when the script began, in nanoseconds
	Inputs   []Input  `json:"inputs"`
	Files    []string `json:"files"` // what the script made, each with its hash, and what it says to the linker
	// Read are the files that compilers and the linker read, each with the hash of what they saw, and "none" for a place where a file was
	// looked for. Several hashes: it was not the same each time; behind Each, in each run of the script.
	Read map[string]string `json:"read,omitempty"`
	// Known says how much of what was compiled is in Read: Complete, Partial or None; Why, why it is not all.
	Known string `json:"known"`
	Why   string `json:"why,omitempty"`
	All   bool   `json:"all,omitempty"` // every file of the package counts
	// Alone says that no compiler but nvcc is known to have run: C and C++ that is not in Read was read by nobody.
	Alone bool `json:"alone,omitempty"`
}

// How much is known of what an OUT_DIR was compiled from.
const (
	Complete = "complete"
	Partial  = "partial"
	None     = "none"
)

// Each begins the hashes of a file that has several contents in each run of a script, which writes them itself.
const Each = "each: "

// Text is a name of a file for JSON, which has no other bytes than UTF-8; Bytes is the name again.
func Text(name string) string {
	if utf8.ValidString(name) && !strings.HasPrefix(name, "\"") {
		return name
	}
	return strconv.Quote(name)
}

// Bytes is the name that Text made a text of.
func Bytes(text string) string {
	if name, err := strconv.Unquote(text); err == nil && strings.HasPrefix(text, "\"") {
		return name
	}
	return text
}

// named is a stamp with each name changed.
func (s Stamp) named(change func(string) string) Stamp {
	read, inputs, files := map[string]string{}, make([]Input, len(s.Inputs)), make([]string, len(s.Files))
	for name, sum := range s.Read {
		read[change(name)] = sum
	}
	for i, in := range s.Inputs {
		inputs[i] = Input{change(in.Name), change(in.Value), in.Hash}
	}
	for i, name := range s.Files {
		files[i] = change(name)
	}
	s.Read, s.Inputs, s.Files = read, inputs, files
	return s
}

// Decode reads a stamp. Whatever is no whole stamp of this schema is an error, and counts as no stamp.
func Decode(data []byte) (Stamp, error) {
	var s Stamp
	if err := json.Unmarshal(data, &s); err != nil {
		return Stamp{}, err
	}
	if s.Schema != Schema || s.PkgID == "" || s.Known == "" {
		return Stamp{}, fmt.Errorf("no stamp of schema %d", Schema)
	}
	return s.named(Bytes), nil
}

// Encode writes a stamp as Decode reads it.
func (s Stamp) Encode() ([]byte, error) {
	s.Schema = Schema
	data, err := json.MarshalIndent(s.named(Text), "", " ")
	return append(data, '\n'), err
}
