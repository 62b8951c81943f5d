package app

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"gpubuild/buildenv/cache"
	"gpubuild/features"
)

// conclusion is what was found out of a package whose code is not what was asked for although it had just been built from nothing: it will not
// be otherwise when it is built again.
type conclusion struct {
	PkgID    string `json:"pkg_id"`
	Features string `json:"features"`
	Want     string `json:"want"`
	Found    string `json:"found"` // hash of the mismatches
	Wrong    string `json:"wrong,omitempty"`
	// ScriptRan is when the script ran of which this was found, where it must be looked at again once it has run again: it may have been mended,
	// or copy other files. 0: it holds for every run.
	ScriptRan int64 `json:"script_ran,omitempty"`
	// Script is the hash of the build script that was concluded of: another one may do otherwise.
	Script string `json:"script"`
}

const (
	conclusionsSchema = 1
	keptConclusions   = 256
)

type conclusions struct {
	Schema int          `json:"schema"`
	List   []conclusion `json:"list"` // oldest first
}

// conclusionsPath lies beside the record: a build directory that CI restores brings them along.
func (j *journey) conclusionsPath() string {
	return j.Host.Join(j.graph.Places.BuildDirectory, ".gpubuild-result.json")
}

// readConclusions reads them; what cannot be read costs one more build of the packages that it spoke of.
func (j *journey) readConclusions() {
	if j.concluded != nil {
		return
	}
	j.concluded = &conclusions{}
	data, err := j.Host.ReadFile(j.conclusionsPath(), recordLimit)
	if err == nil {
		err = json.Unmarshal(data, j.concluded)
		if err == nil && j.concluded.Schema != conclusionsSchema {
			err = fmt.Errorf("it is of schema %d, this gpubuild knows %d", j.concluded.Schema, conclusionsSchema)
		}
	}
	if err != nil {
		j.concluded = &conclusions{}
		if !errors.Is(err, fs.ErrNotExist) {
			j.Shell.Detail("%s: %v; it is written anew", j.conclusionsPath(), err)
		}
	}
}

func (j *journey) conclude(list []conclusion) error {
	if len(list) == 0 {
		return nil
	}
	j.readConclusions()
	kept := j.concluded.List[:0:0]
	for _, old := range j.concluded.List {
		replaced := false
		for _, c := range list {
			replaced = replaced || old.PkgID == c.PkgID && old.Features == c.Features && old.Want == c.Want
		}
		if !replaced {
			kept = append(kept, old)
		}
	}
	kept = append(kept, list...)
	j.concluded.Schema, j.concluded.List = conclusionsSchema, kept[max(0, len(kept)-keptConclusions):]
	data, err := json.MarshalIndent(j.concluded, "", " ")
	if err != nil {
		return err
	}
	return cache.WriteFile(j.conclusionsPath(), append(data, '\n'), 0o644)
}

// scriptHash is of the Rust sources beside a package's manifest, of which the build script is one; what it includes from elsewhere is not seen.
func (j *journey) scriptHash(u features.ScriptUnit) string {
	sum := sha256.New()
	for _, name := range j.names(u.Dir) {
		if j.Host.Ext(name) != ".rs" {
			continue
		}
		text, err := cache.Hash(j.Host.Join(u.Dir, name))
		if err != nil {
			text = err.Error()
		}
		fmt.Fprintln(sum, name, text)
	}
	return hex.EncodeToString(sum.Sum(nil)[:12])
}

// concludedOf answers what is known of a mistake already.
func (j *journey) concludedOf(f *mistake) (conclusion, bool) {
	j.readConclusions()
	for _, c := range j.concluded.List {
		if c.PkgID == f.unit.PkgID && (f.beyond || c.Features == f.features) && c.Want == f.want.String() && c.Found == f.sum() && (c.ScriptRan == 0 || c.ScriptRan == f.scriptRan) &&
			c.Script == j.scriptHash(f.unit) {
			return c, true
		}
	}
	return conclusion{}, false
}
