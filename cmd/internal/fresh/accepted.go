package fresh

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"gpubuild/buildenv/cache"
	"gpubuild/buildenv/memo"
	"gpubuild/features"
)

// acceptedKind names the cache entries about device code that is not what was asked for although it had just been built from
// nothing: building it again will not change it. The text of an entry is empty where the code may stay, and says otherwise what
// is wrong. Losing one costs a rebuild.
const acceptedKind = "accepted-1"

// acceptedKey names a mismatch of a unit whose sources are what they are now. The time of the script's run is part of it where
// the answer holds for that run alone: the script may have been changed since, or copy other files.
func (s *State) acceptedKey(f *mistake, scriptRan int64) string {
	set := f.features
	if s.undeclared[f.unit.PkgID] {
		set = "" // they may not be known before the build
	}
	dir := s.host.Real(s.b.Graph.Places.BuildDirectory)
	return memo.Key(dir, f.unit.PkgID, set, f.want.String(), f.sum(), scriptHash(s, f.unit), fmt.Sprint(scriptRan))
}

// accepted answers what is known of a mistake already: what is wrong, or nothing where the code may stay.
func (s *State) accepted(f *mistake) (wrong string, ok bool) {
	for _, ran := range []int64{0, f.scriptRan} {
		if text, ok := s.b.Machine.Memo().Get(acceptedKind, s.acceptedKey(f, ran)); ok {
			return string(text), true
		}
	}
	return "", false
}

// accept remembers what was found out of a mistake.
func (s *State) accept(f *mistake, scriptRan int64, wrong string) {
	if err := s.b.Machine.Memo().Put(acceptedKind, s.acceptedKey(f, scriptRan), nil, []byte(wrong)); err != nil {
		s.shell.Warning("%v; what was found out of the packages is found out again next time", err)
	}
}

// scriptHash is of the Rust sources beside a package's manifest, of which the build script is one; what it includes from
// elsewhere is not seen.
func scriptHash(s *State, u features.ScriptUnit) string {
	sum := sha256.New()
	for _, name := range s.host.Names(u.Dir) {
		if s.host.Ext(name) != ".rs" {
			continue
		}
		text, err := cache.Hash(s.host.Join(u.Dir, name))
		if err != nil {
			text = err.Error()
		}
		fmt.Fprintln(sum, name, text)
	}
	return hex.EncodeToString(sum.Sum(nil)[:12])
}
