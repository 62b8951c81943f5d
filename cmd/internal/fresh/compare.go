package fresh

import (
	"os"
	"slices"
	"strings"
	"time"

	"gpubuild/buildenv"
	"gpubuild/buildenv/cache"
	"gpubuild/buildenv/finding"
	"gpubuild/buildenv/stale"
	"gpubuild/cmd/internal/cargorun"
	"gpubuild/cmd/internal/fresh/inputs"
	"gpubuild/features/manifest"
	"gpubuild/toolchain/cargo"
	"gpubuild/toolchain/cargo/builddir"
)

// outDir is an OUT_DIR as it was when it was looked at, and what comes of comparing it.
type outDir struct {
	pkg      Package
	dir      string
	ran      int64
	finished bool // its script came to an end
	stamp    stale.Stamp
	stamped  bool
	damaged  bool // a stamp is there that cannot be read
	content  content
	inputs   []stale.Input // of now

	state   string
	why     string // of unknown
	reasons []stale.Reason
}

// States of an OUT_DIR.
const (
	agrees  = "fresh"
	differs = "stale"
	unknown = "unknown"
)

// compare looks at the OUT_DIRs that cargo may take: those with a stamp for the features of this build, or where a package has none,
// those without.
func (s *State) compare() {
	for _, p := range s.packages {
		if p.undeclared && s.b.Tools.Set.Toolkit == nil {
			continue // there is nothing that its code could be compared with
		}
		s.inputsOf(p, false, false)
		var stamped, rest []outDir
		for _, o := range s.outDirs(p) {
			l := s.look(p, o.Dir)
			// Two workspaces may share the OUT_DIR of a path package.
			twin := strings.Contains(l.stamp.PkgID, "path+") && manifest.ParsePkgID(l.stamp.PkgID).Version == p.Version
			ours := func(set string) bool { return slices.Contains(l.stamp.Features, set) }
			switch {
			case l.stamped && l.stamp.PkgID == p.PkgID && slices.ContainsFunc(p.sets, ours):
				stamped = append(stamped, l)
			case l.stamped && (l.stamp.PkgID == p.PkgID || !twin):
			case !p.Inputs.Arch || len(l.content.Made) > 0 || !l.finished || l.damaged:
				rest = append(rest, l)
			}
		}
		if len(stamped) == 0 {
			if stamped = rest; p.Inputs.Arch { // it may turn out that all of its files count
				s.inputsOf(p, true, false)
			}
		}
		for _, l := range stamped {
			s.outs = append(s.outs, s.judge(l))
		}
	}
}

// look reads what is known of an OUT_DIR.
func (s *State) look(p Package, dir string) outDir {
	h := s.b.Machine.Host
	o := outDir{pkg: p, dir: dir, ran: builddir.Ran(h, dir), finished: builddir.Finished(h, dir), content: s.contentOf(dir)}
	o.stamp, o.stamped = readStamp(h, dir)
	o.damaged = !o.stamped && h.IsFile(h.Join(h.Dir(dir), stale.StampFile))
	return o
}

// noted is what inputsOf was asked.
type noted struct {
	id                 string
	arch, all, unknown bool
}

// inputsOf notes what a package would be built with now, once for a build: what is replaced while cargo runs is another thing at the
// next one. Of a package that the build itself showed, or of which more turns out to count, what was noted before holds.
func (s *State) inputsOf(p Package, all, unknown bool) []stale.Input {
	key := noted{p.PkgID, p.Inputs.Arch, all, unknown}
	if list, ok := s.read.inputs[key]; ok {
		return list
	}
	list := inputs.Now(s.b.Machine.Host, s.b.Tools, p.unit(all, unknown), s.read.hashes)
	for _, before := range []noted{{p.PkgID, p.Inputs.Arch, true, false}, {p.PkgID, p.Inputs.Arch, false, false}} {
		was := map[string]stale.Input{} // there may be 50,000 of each
		for _, old := range s.read.inputs[before] {
			was[old.Name] = old
		}
		for i, in := range list {
			if old, is := was[in.Name]; is {
				list[i] = old
			}
		}
	}
	s.read.inputs[key] = list
	return list
}

// judge compares an OUT_DIR with its stamp.
func (s *State) judge(o outDir) outDir {
	o.inputs = s.inputsOf(o.pkg, o.stamp.All, o.stamp.Known != stale.Complete)
	o.state = unknown
	switch {
	case !o.stamped && !o.finished:
		o.why = "its build script did not come to its end"
	case !o.stamped:
		o.why = "there is no record of what it was built with"
	case o.stamp.PkgID != o.pkg.PkgID:
		o.why = "it was built last for another workspace (" + o.stamp.PkgID + ")"
	case !o.finished && o.stamp.Ran != o.ran:
		o.why = "its build script was interrupted, or is still at work"
	default:
		o.reasons = s.differences(o)
		switch {
		case len(o.reasons) > 0:
			o.state = differs
		case o.ran == o.stamp.Ran && !o.content.has(o.stamp.Files):
			o.why = "what its build script left has been changed or removed since"
		case o.ran != o.stamp.Ran && !slices.Equal(o.content.Files, o.stamp.Files):
			o.why = "its build script was run by another cargo, and left other files"
		case o.pkg.Inputs.Arch && len(o.content.Made) == 0 &&
			max(o.ran-o.stamp.Ran, o.stamp.Ran-o.ran) > int64(2*time.Second): // archives leave out that
			o.why = "its build script was run by another cargo, and left no device code that could be compared"
		default:
			o.state = agrees
		}
	}
	return o
}

// differences are those between a stamp and now, without what cargo itself rebuilds (a file that the script declares and that is newer than
// its last run), and where no compiler ran but nvcc, without the files of C and C++ that nobody read.
func (s *State) differences(o outDir) []stale.Reason {
	h := s.b.Machine.Host
	was, now := s.stillRead(o)
	both := map[string]bool{} // a stamp may have 50,000
	for place := range o.stamp.Read {
		both[nameOf(place)] = true
	}
	recorded := func(in stale.Input) bool { return both[in.Name] } // what nvcc saw counts, not what lay there
	old := append(slices.DeleteFunc(slices.Clone(o.stamp.Inputs), recorded), was...)
	all := stale.Differences(o.pkg.Name, old, append(slices.DeleteFunc(slices.Clone(o.inputs), recorded), now...))
	if len(all) == 0 {
		return nil
	}
	said, _ := builddir.Output(h, o.dir) // where that cannot be read it declares nothing
	return slices.DeleteFunc(all, func(r stale.Reason) bool {
		path, name := h.From(o.pkg.Dir, r.Input), stale.Part(inputs.Sources, r.Input)
		unread := func(in stale.Input) bool { return in.Name == name && !both[name] }
		if o.stamp.Alone && s.read.hashes.ReadByNobody(o.pkg.unit(false, false), path, both) &&
			(slices.ContainsFunc(o.inputs, unread) || slices.ContainsFunc(o.stamp.Inputs, unread)) {
			return true
		}
		fi, err := h.Files.Stat(path)
		if r.New != stale.InPlace || err != nil || fi.ModTime().UnixNano() <= o.ran {
			return false
		}
		return slices.ContainsFunc(said.Files, func(f string) bool { return h.Below(path, h.From(o.pkg.Dir, f)) })
	})
}

// readStamp reads the stamp of an OUT_DIR. One that is damaged is none: the package is built once more.
func readStamp(h buildenv.Host, dir string) (stale.Stamp, bool) {
	data, err := h.ReadFile(h.Join(h.Dir(dir), stale.StampFile), buildenv.Record)
	if err != nil {
		return stale.Stamp{}, false
	}
	stamp, err := stale.Decode(data)
	return stamp, err == nil
}

// writeStamp writes down what an OUT_DIR was built with. A build stays good without it: the next one builds the package once more.
func (s *State) writeStamp(o outDir) {
	h := s.b.Machine.Host
	path := h.Join(h.Dir(o.dir), stale.StampFile)
	data, err := o.stamp.Encode()
	if err == nil {
		if old, is := h.ReadFile(path, buildenv.Record); is == nil && string(old) == string(data) {
			return
		}
		err = cache.WriteFile(path, data, 0o644)
	}
	if err != nil {
		s.say(finding.Finding{
			ID: "stale.unrecorded", Message: "cannot write down what " + o.pkg.Name + " was built with: " + err.Error(),
			Fix: "make " + h.Dir(path) + " writable; until then each build compiles the kernels again",
		})
	}
}

// say adds a finding and says it, once in a build.
func (s *State) say(f finding.Finding) {
	if f = finding.Of(f); !slices.ContainsFunc(s.found, func(was finding.Finding) bool { return was.Message == f.Message }) {
		s.found = append(s.found, f)
		s.b.Machine.Shell.Finding(f)
	}
}

// seen notes what is known of every OUT_DIR of this build's scripts as the build begins.
func (s *State) seen() map[string]Before {
	h, now := s.b.Machine.Host, map[string]Before{}
	for _, o := range builddir.Outs(h, s.b.profileDirs(), s.read.scripts) {
		now[h.Clean(o.Dir)] = Before{Ran: o.Ran}
	}
	for _, o := range s.outs {
		if b, ok := now[h.Clean(o.dir)]; ok && b.Ran == o.ran {
			now[h.Clean(o.dir)] = Before{o.ran, o.state == agrees}
		}
	}
	return now
}

// after judges the OUT_DIRs that cargo named. A script that cargo ran where nothing lay, or where everything agreed, made what was asked
// for; whatever else lies there is compared like before a build.
func (s *State) after(built cargorun.Built) *State {
	next := *s
	next.outs, next.found = nil, slices.Clip(s.found)
	again := *s.read
	again.hashes = inputs.NewHashes(s.b.Machine, s.b.ownDirs()...) // what was looked at before the build may have changed
	next.read = &again
	next.packages = next.findPackages() // one may have compiled its first kernels
	h := s.b.Machine.Host
	seen := map[string]bool{}
	for _, m := range slices.Concat(built.Messages, next.macrosBuilt()) {
		if m.Reason != cargo.ScriptExecuted || seen[m.OutDir] {
			continue
		}
		seen[m.OutDir] = true
		was := s.before[h.Clean(m.OutDir)]
		at := slices.IndexFunc(next.packages, func(p Package) bool { return p.PkgID == m.PackageID })
		if at < 0 || next.packages[at].undeclared && s.b.Tools.Set.Toolkit == nil {
			continue
		}
		o := next.look(next.packages[at], m.OutDir)
		switch {
		case o.ran == was.Ran && was.Agreed:
			o.state = agrees
		case o.ran != was.Ran && !compiledAny(m.PackageID, built):
			o.state, o.why = unknown, "cargo took the crate for fresh although its build script ran"
		case o.ran != was.Ran && !built.Waited && (was.Ran == 0 || was.Agreed):
			for _, old := range s.outs { // what its script writes each time
				if old.dir == o.dir {
					o.stamp.Read = old.stamp.Read
				}
			}
			o.state = agrees
			next.builtNow(&o, m)
		default:
			o = next.judge(o)
		}
		next.outs = append(next.outs, o)
	}
	return &next
}

// compiledAny reports whether cargo compiled any crate of a package in this build, or made none at all. It compiles none where the files
// that it keeps of a script were lost: then it runs the script, and goes on with the old crate until the next build.
func compiledAny(pkgID string, built cargorun.Built) bool {
	none := true
	for _, m := range built.Messages {
		if m.Reason == cargo.Artifact && m.PackageID == pkgID && !slices.Contains(m.Target.Kind, "custom-build") {
			if none = false; !m.Fresh {
				return true
			}
		}
	}
	return none
}

// builtNow reads what a script made in this build and writes its stamp.
func (s *State) builtNow(o *outDir, m cargo.Message) {
	words, _ := builddir.Output(s.b.Machine.Host, o.dir) // where that cannot be read it declares nothing
	k := s.known(*o, s.linked(m))
	unknown := k.state != stale.Complete
	all := o.pkg.Inputs.Arch && !words.Declares || unknown
	o.inputs, o.reasons = s.meanwhile(*o, o.pkg.unit(all, unknown), s.inputsOf(o.pkg, all, unknown), k.read)
	if len(o.reasons) > 0 {
		o.state = differs
	}
	o.stamp, o.stamped = s.stampOf(*o, k, all), true
	if unknown && (k.state == stale.Partial || s.ofMacro(*o) || k.records.Calls+len(s.b.Machine.Host.Names(o.dir)) > 0) { // else nothing was made
		s.noteUnknown(*o, k)
	}
	s.warnOfCode(*o)
	s.warnOfEmpty(*o, k)
	s.writeStamp(*o)
	remove(k.records.Replaced)
}

// remove removes records that the stamp has no need of.
func remove(records []string) {
	for _, path := range records {
		_ = os.Remove(path) // the next build does
	}
}

func (s *State) stampOf(o outDir, k knowledge, all bool) stale.Stamp {
	sets := slices.Sorted(slices.Values(o.pkg.sets))
	return stale.Stamp{PkgID: o.pkg.PkgID, Features: sets, Ran: o.ran, Inputs: o.inputs, Files: o.content.Files,
		Read: k.read, Known: k.state, Why: k.why, Alone: k.alone, All: all}
}

// keepFailed writes the stamps of scripts that failed by themselves in our own build: they begin where they ended, as under cargo. What
// an interrupted one left may be half.
func (s *State) keepFailed(built cargorun.Built) {
	if built.Interrupted || built.Waited {
		return
	}
	h := s.b.Machine.Host
	done := map[string]bool{}
	for _, m := range built.Messages {
		done[h.Clean(m.OutDir)] = true
	}
	for _, p := range s.packages {
		for _, place := range builddir.Outs(h, p.dirs, map[string]bool{p.Name: true}) {
			was := s.before[h.Clean(place.Dir)]
			if done[h.Clean(place.Dir)] || place.Ran == was.Ran || was.Ran != 0 && !was.Agreed {
				continue
			}
			o := s.look(p, place.Dir)
			k := s.known(o, nil)
			o.inputs = s.inputsOf(p, true, k.state != stale.Complete)
			o.stamp = s.stampOf(o, k, true)
			s.writeStamp(o)
			remove(k.records.Replaced)
			if !p.undeclared { // else they alone show that it is a GPU package
				remove(k.records.Failed)
			}
		}
	}
}
