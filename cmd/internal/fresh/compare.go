package fresh

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"gpubuild/buildenv"
	"gpubuild/buildenv/cache"
	"gpubuild/buildenv/finding"
	"gpubuild/buildenv/stale"
	"gpubuild/cmd/internal/cargorun"
	"gpubuild/cmd/internal/fresh/inputs"
	"gpubuild/features"
	"gpubuild/features/manifest"
	"gpubuild/features/source"
	"gpubuild/toolchain/cargo"
	"gpubuild/toolchain/cargo/builddir"
)

// out is an OUT_DIR as it was when it was looked at, and what comes of comparing it.
type out struct {
	pkg      Package
	dir      string
	ran      int64
	finished bool // its script came to an end
	stamp    stale.Stamp
	stamped  bool
	damaged  bool // a stamp is there that cannot be read
	held     holding
	inputs   []stale.Input // of now

	state   string
	why     string // of unknown
	reasons []stale.Reason
	wrong   *mistake // device code that is not what was asked for, as built in this run
}

// States of an OUT_DIR.
const (
	agrees  = "fresh"
	differs = "stale"
	unknown = "unknown"
)

// compare looks at the OUT_DIRs that cargo may take: those with a stamp for the features of this build, or where a package has none,
// those without. Where a build has no GPU package of a kind yet it notes all the same what one would be built with.
func (s *State) compare(ctx context.Context) error {
	for _, p := range s.packages {
		if p.undeclared && s.b.Tools.Set.Toolkit == nil {
			continue // there is nothing that its code could be compared with
		}
		if _, err := s.inputsOf(ctx, p); err != nil {
			return err
		}
		var stamped, rest []out
		for _, o := range s.outDirs(p) {
			l := s.look(p, o.Dir)
			// Two workspaces may share the OUT_DIR of a path package.
			twin := strings.Contains(l.stamp.PkgID, "path+") && manifest.ParsePkgID(l.stamp.PkgID).Version == p.Version
			ours := func(set string) bool { return slices.Contains(l.stamp.Features, set) }
			switch {
			case l.stamped && l.stamp.PkgID == p.PkgID && slices.ContainsFunc(p.sets, ours):
				stamped = append(stamped, l)
			case l.stamped && (l.stamp.PkgID == p.PkgID || !twin):
			case !p.Inputs.Arch || len(l.held.Code) > 0 || !l.finished || l.damaged:
				rest = append(rest, l)
			}
		}
		if len(stamped) == 0 {
			stamped = rest
		}
		for _, l := range stamped {
			o, err := s.judge(ctx, l)
			if err != nil {
				return err
			}
			s.outs = append(s.outs, o)
		}
	}
	if s.b.Tools.Set.Toolkit != nil && s.b.Tools.Needs.NVCC { // one may compile its first kernels in this build
		all := features.Inputs{NVCC: true, Host: true, Arch: true, Root: true}
		_, err := s.inputsOf(ctx, Package{ScriptUnit: features.ScriptUnit{Inputs: all}})
		return err
	}
	return nil
}

// look reads what is known of an OUT_DIR.
func (s *State) look(p Package, dir string) out {
	h := s.b.Machine.Host
	o := out{pkg: p, dir: dir, ran: builddir.Ran(h, dir), finished: builddir.Finished(h, dir), held: s.held(dir)}
	o.stamp, o.stamped = readStamp(h, dir)
	o.damaged = !o.stamped && h.IsFile(h.Join(h.Dir(dir), stale.StampFile))
	return o
}

// inputsOf notes what a package would be built with now, once for a build: what is replaced while cargo runs is another thing at the
// next one. Of a package that the build itself showed, the tools are those that were noted before.
func (s *State) inputsOf(ctx context.Context, p Package) ([]stale.Input, error) {
	noted, key := s.read.inputs, fmt.Sprint(p.PkgID, p.Inputs.Arch)
	if list, ok := noted[key]; ok {
		return list, nil
	}
	list, err := inputs.Now(ctx, s.b.Machine.Host, s.b.Tools, p.ScriptUnit, s.read.hashes)
	if err != nil {
		return nil, err
	}
	for i, in := range list {
		for _, old := range noted[anyPackage] {
			if old.Name == in.Name {
				list[i] = old
			}
		}
	}
	noted[key] = list
	return list, nil
}

// anyPackage is the name under which inputsOf notes what a package would take of which nothing is known yet.
const anyPackage = "true"

// judge compares an OUT_DIR with its stamp, and its device code with what is asked for.
func (s *State) judge(ctx context.Context, o out) (out, error) {
	want := stale.Want{}
	if o.pkg.Inputs.Arch {
		want = s.wanted(ctx, o.pkg.Inputs)
	}
	now, err := s.inputsOf(ctx, o.pkg)
	if err != nil {
		return o, err
	}
	linked, err := s.stillLinked(o, now)
	if err != nil {
		return o, err
	}
	o.inputs = append(slices.Clip(now), linked...)
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
		if o.reasons = s.differences(o); len(o.reasons) > 0 {
			o.state = differs
		} else if o.held.Sum != o.stamp.Sum && o.ran == o.stamp.Ran {
			o.why = "what its build script left has been changed or removed since"
		} else if o.held.Sum != o.stamp.Sum {
			o.why = "its build script was run by another cargo, and left other device code"
		} else if o.pkg.Inputs.Arch && len(o.held.Code) == 0 && o.apart() > archived {
			o.why = "its build script was run by another cargo, and left no device code that could be compared"
		} else if wrong, _ := stale.Hold(o.held.Code, want); len(wrong) > 0 && o.stamp.Wrong == "" && !o.stamp.Excused {
			o.why = strings.TrimPrefix(stale.Describe(o.pkg.Name, wrong, want), o.pkg.Name+" ")
		} else {
			o.state = agrees
		}
	}
	return o, nil
}

// differences are those between a stamp and now, without what cargo itself rebuilds: a source file that it watches and that is newer than
// the script's last run.
func (s *State) differences(o out) []stale.Reason {
	h := s.b.Machine.Host
	all := stale.Differences(o.pkg.Name, o.stamp.Inputs, o.inputs)
	for i, r := range all {
		if slices.Contains(o.stamp.Wrote, r.Input) {
			all[i].Input += " (written by the build script, or edited while it ran)"
			all[i].Old = all[i].Input
		}
	}
	var said *builddir.Words
	return slices.DeleteFunc(all, func(r stale.Reason) bool {
		if r.New != stale.InPlace || !strings.EqualFold(h.Ext(r.Input), ".cu") {
			return false
		}
		path := h.Join(o.pkg.Dir, r.Input)
		fi, err := h.Files.Stat(path)
		if err != nil || fi.ModTime().UnixNano() <= o.ran {
			return false
		}
		if said == nil {
			words, err := builddir.Output(h, o.dir)
			if err != nil {
				return false
			}
			said = &words
		}
		return !said.Declares || slices.ContainsFunc(said.Files, func(f string) bool {
			if !h.IsAbs(f) {
				f = h.Join(o.pkg.Dir, f)
			}
			return h.Below(path, f)
		})
	})
}

// readStamp reads the stamp of an OUT_DIR. One that is damaged is none: the package is built once more.
func readStamp(h buildenv.Host, dir string) (stale.Stamp, bool) {
	data, err := h.ReadFile(h.Join(h.Dir(dir), stale.StampFile), 16<<20)
	if err != nil {
		return stale.Stamp{}, false
	}
	stamp, err := stale.Decode(data)
	return stamp, err == nil
}

// writeStamp writes down what an OUT_DIR was built with. A build stays good without it: the next one builds the package once more.
func (s *State) writeStamp(o out) {
	h := s.b.Machine.Host
	path := h.Join(h.Dir(o.dir), stale.StampFile)
	data, err := o.stamp.Encode()
	if err == nil {
		if old, is := h.ReadFile(path, 16<<20); is == nil && string(old) == string(data) {
			return
		}
		err = cache.WriteFile(path, data, 0o644)
	}
	var last finding.Finding
	if len(s.found) > 0 {
		last = s.found[len(s.found)-1]
	}
	if err == nil || last.ID == "stale.unrecorded" {
		return
	}
	f := finding.Finding{
		ID: "stale.unrecorded", Severity: finding.Warning,
		Message: "cannot write down what " + o.pkg.Name + " was built with: " + err.Error(),
		Fix:     "make " + h.Dir(path) + " writable; until then each build compiles the kernels again",
	}
	s.found = append(s.found, f)
	s.b.Machine.Shell.Warning("%s", f.Message)
	s.b.Machine.Shell.Hint(f.Fix)
}

// seen notes what is known of every OUT_DIR of this build's scripts as the build begins.
func (s *State) seen() map[string]before {
	h, now := s.b.Machine.Host, map[string]before{}
	for _, o := range builddir.Outs(h, s.b.profileDirs(), s.read.scripts) {
		now[h.Clean(o.Dir)] = before{ran: o.Ran}
	}
	for _, o := range s.outs {
		if b, ok := now[h.Clean(o.dir)]; ok && b.ran == o.ran {
			now[h.Clean(o.dir)] = before{o.ran, o.state == agrees}
		}
	}
	return now
}

// after judges the OUT_DIRs that cargo named. A script that cargo ran where nothing lay, or where everything agreed, made what was asked
// for; whatever else lies there is compared like before a build.
func (s *State) after(ctx context.Context, built cargorun.Built) (*State, error) {
	next := *s
	next.outs, next.found = nil, slices.Clip(s.found)
	again := *s.read
	again.hashes = inputs.NewHashes(s.b.Machine, s.b.ownDirs()...) // what was looked at before the build may have changed
	next.read = &again
	next.packages = next.findPackages() // one may have compiled its first kernels
	h := s.b.Machine.Host
	seen := map[string]bool{}
	for _, m := range built.Messages {
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
		case o.ran == was.ran && was.agreed:
			o.state = agrees
		case o.ran != was.ran && !compiledAny(m.PackageID, built):
			o.state, o.why = unknown, "cargo took the crate for fresh although its build script ran"
		case o.ran != was.ran && !built.Waited && (was.ran == 0 || was.agreed):
			for _, old := range s.outs { // what is known of the libraries that it links
				if old.dir == o.dir {
					o.stamp.Inputs = append(slices.Clip(o.stamp.Inputs), old.inputs...)
					o.stamp.Wrote = old.stamp.Wrote
				}
			}
			o.state = agrees
			if err := next.builtNow(ctx, &o, m, built, was.ran == 0); err != nil {
				return s, err
			}
		default:
			var err error
			if o, err = next.judge(ctx, o); err != nil {
				return s, err
			}
		}
		next.outs = append(next.outs, o)
	}
	return &next, nil
}

// compiledAny says whether cargo compiled any crate of a package in this build, or made none at all. It compiles none where the files
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

// builtNow reads what a script made in this build and writes its stamp. What is not what was asked for counts only where it was built
// from nothing; otherwise the package is cleaned once.
func (s *State) builtNow(ctx context.Context, o *out, m cargo.Message, built cargorun.Built, fromNothing bool) error {
	list, err := s.inputsOf(ctx, o.pkg)
	if err != nil {
		return err
	}
	linked, made, err := s.linked(m, *o)
	if err != nil {
		return err
	}
	list, wrote, err := s.written(*o, list, o.stamp.Wrote)
	if err != nil {
		return err
	}
	o.inputs = append(list, linked...)
	o.stamp = s.stampOf(*o)
	o.stamp.Wrote = manifest.Union(wrote, made)
	o.stamped = true
	if slices.Contains(o.pkg.Inputs.Env, source.Unnamed) {
		s.b.Machine.Shell.Note("%s: its build script makes up names of variables; only changes of %s are noticed", o.pkg.Name,
			strings.Join(source.Likely(o.pkg.Name), ", "))
	}
	o.wrong, o.stamp.Excused = s.mistakeIn(ctx, *o, built)
	if o.wrong != nil {
		if !fromNothing {
			o.state, o.why = unknown, strings.TrimPrefix(o.wrong.words(), o.pkg.Name+" ")
			return nil
		}
		o.stamp.Wrong, o.stamp.Fix = o.wrong.words(), s.remedy(o.wrong)
	}
	s.writeStamp(*o)
	return nil
}

func (s *State) stampOf(o out) stale.Stamp {
	sets := slices.Sorted(slices.Values(o.pkg.sets))
	return stale.Stamp{PkgID: o.pkg.PkgID, Features: sets, Ran: o.ran, Inputs: o.inputs, Sum: o.held.Sum}
}

// keepFailed writes the stamps of scripts that failed by themselves in our own build: they begin where they ended, as under cargo. What
// an interrupted one left may be half.
func (s *State) keepFailed(ctx context.Context, built cargorun.Built) {
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
			if done[h.Clean(place.Dir)] || place.Ran == was.ran || was.ran != 0 && !was.agreed {
				continue
			}
			o := s.look(p, place.Dir)
			if list, err := s.inputsOf(ctx, p); err == nil {
				o.inputs, o.stamp = list, stale.Stamp{}
				o.stamp = s.stampOf(o)
				s.writeStamp(o)
			}
		}
	}
}

// archived is what an archive may leave out of the time of a script whose device code is what it was.
const archived = 2 * time.Second

// apart is the time between the run that a stamp is of and the last one.
func (o out) apart() time.Duration { return time.Duration(max(o.ran-o.stamp.Ran, o.stamp.Ran-o.ran)) }

// Foreign is a package whose build script another cargo ran since it was built; empty: none.
func (s *State) Foreign() string {
	for _, o := range s.outs {
		ran := o.apart() > archived || o.apart() > 0 && o.held.Sum != o.stamp.Sum
		if o.stamped && o.finished && o.stamp.PkgID == o.pkg.PkgID && ran {
			return o.pkg.Name
		}
	}
	return ""
}
