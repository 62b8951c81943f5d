// Package stale compares what an artifact was built with to what it would be built with now, and device code to what was asked for.
// It is pure: it reads no file, deletes nothing and runs nothing.
//
// It owns the format of the stamp, the small file next to a build script's OUT_DIR that says what its content was built with.
package stale

import (
	"encoding/json"
	"fmt"
)

// Schema is the version of the stamp that this package writes, and the only one that it reads.
const Schema = 4

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
	Sum      string   `json:"sum"`             // of what the script made
	Wrote    []string `json:"wrote,omitempty"` // sources of the package that changed while the script ran
	// Read are the files that compilers read, each with the hash of what they saw, and "none" for a place where a file was looked for.
	Read map[string]string `json:"read,omitempty"`
	// All says that every file of the package counts, Unknown that nobody knows which headers were read.
	All     bool `json:"all,omitempty"`
	Unknown bool `json:"headers_unknown,omitempty"`
}

// Decode reads a stamp. Whatever is no whole stamp of this schema is an error, and counts as no stamp.
func Decode(data []byte) (Stamp, error) {
	var s Stamp
	if err := json.Unmarshal(data, &s); err != nil {
		return Stamp{}, err
	}
	if s.Schema != Schema || s.PkgID == "" || s.Sum == "" {
		return Stamp{}, fmt.Errorf("no stamp of schema %d", Schema)
	}
	return s, nil
}

// Encode writes a stamp as Decode reads it.
func (s Stamp) Encode() ([]byte, error) {
	s.Schema = Schema
	data, err := json.MarshalIndent(s, "", " ")
	return append(data, '\n'), err
}
