package builddir

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"strings"

	"gpubuild/buildenv"
)

// fingerprintLimit is far above what cargo keeps of one unit.
const fingerprintLimit = 64 << 20

// Script is a build script as cargo once compiled it.
type Script struct {
	Features []string
	Told     bool   // the features could be read
	sum      string // of everything that went into it, as cargo writes it; empty: not told
}

// Compiled lists the ways in which a package's build script was compiled in directories of a profile. What cargo keeps of each
// says with which features: build-script-NAME.json, its field features a list in a string, and build-script-NAME, a hash in
// hexadecimal, lie in .fingerprint/PACKAGE-HASH (layouts up to 1.99) or build/PACKAGE/HASH/fingerprint (1.100). Sources: cargo
// 1.95, src/cargo/core/compiler/fingerprint/mod.rs, and as seen in both layouts. All of that is cargo's private matter: whoever
// asks must get along with less.
func Compiled(h buildenv.Host, profiles []string, pkg string) []Script {
	var dirs []string
	for _, profile := range profiles {
		for _, e := range h.Names(h.Join(profile, ".fingerprint")) {
			if at := strings.LastIndexByte(e, '-'); at > 0 && e[:at] == pkg {
				dirs = append(dirs, h.Join(profile, ".fingerprint", e))
			}
		}
		for _, e := range h.Names(h.Join(profile, "build", pkg)) {
			dirs = append(dirs, h.Join(profile, "build", pkg, e, "fingerprint"))
		}
	}
	var out []Script
	for _, dir := range dirs {
		for _, name := range h.Names(dir) {
			stem, ok := strings.CutSuffix(name, ".json")
			if !ok || !strings.HasPrefix(name, "build-script-") {
				continue
			}
			s := Script{}
			var kept struct {
				Features *string `json:"features"`
			}
			data, err := h.ReadFile(h.Join(dir, name), fingerprintLimit)
			s.Told = err == nil && json.Unmarshal(data, &kept) == nil && kept.Features != nil &&
				json.Unmarshal([]byte(*kept.Features), &s.Features) == nil
			if sum, err := h.ReadFile(h.Join(dir, stem), 1<<10); err == nil {
				s.sum = strings.TrimSpace(string(sum))
			}
			out = append(out, s)
		}
	}
	return out
}

// Features answers with which features the script of an OUT_DIR was compiled, of which neither cargo's messages nor the script's
// own files speak: what cargo keeps of the script's run, run-build-script-NAME.json, lists among its deps the hash of the script
// as it was compiled, as a number whose bytes the other file has in hexadecimal, lowest first. profiles are the directories in
// which it may have been compiled: with a platform that is the host's. false where that cannot be followed.
func Features(h buildenv.Host, outDir string, profiles []string) ([]string, bool) {
	unit := h.Dir(outDir)
	pkg, kept := h.Base(h.Dir(unit)), h.Join(unit, "fingerprint")
	if !h.IsDir(kept) {
		name := h.Base(unit)
		at := strings.LastIndexByte(name, '-')
		if at <= 0 {
			return nil, false
		}
		pkg, kept = name[:at], h.Join(h.Dir(h.Dir(unit)), ".fingerprint", name)
	}
	sums := map[string]bool{}
	for _, name := range h.Names(kept) {
		if !strings.HasPrefix(name, "run-build-script-") || h.Ext(name) != ".json" {
			continue
		}
		var run struct {
			Deps [][]json.RawMessage `json:"deps"`
		}
		data, err := h.ReadFile(h.Join(kept, name), fingerprintLimit)
		if err != nil || json.Unmarshal(data, &run) != nil {
			return nil, false
		}
		for _, dep := range run.Deps {
			var n uint64
			if len(dep) > 0 && json.Unmarshal(dep[len(dep)-1], &n) == nil {
				sums[hex.EncodeToString(binary.LittleEndian.AppendUint64(nil, n))] = true
			}
		}
	}
	for _, s := range Compiled(h, profiles, pkg) {
		if s.Told && sums[s.sum] {
			return s.Features, true
		}
	}
	return nil, false
}
