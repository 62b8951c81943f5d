package fresh

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/hosttest"
	"gpubuild/buildenv/stale"
	"gpubuild/cmd/internal/cargorun"
	"gpubuild/features"
	"gpubuild/features/graph"
	"gpubuild/gpu"
	"gpubuild/toolchain/cargo"
)

// scene is a build of one GPU package, k, whose build script is run by hand, and whose cargo only notes what it is to clean.
type scene struct {
	*bench
	id, unit string
	at       time.Time // of the script's next run
	clean    []string
	refuses  error // what cargo says to the command line of the build
	said     bytes.Buffer
}

func newScene(t *testing.T) *scene {
	s := &scene{bench: newBench(t), id: "path+file:///k#1.0.0", at: time.Now().Add(-time.Hour)}
	s.unit = filepath.Join(s.top, "target", "debug", "build", "k-1")
	s.s.b.Machine.Runner, s.s.b.Machine.Shell.Err = s, &s.said
	s.s.b.Reach = &features.Reach{Units: []features.ScriptUnit{{PkgID: s.id, Name: "k", Version: "1.0.0", Dir: filepath.Join(s.top, "package"),
		Features: []string{"cuda"}, Inputs: features.Inputs{NVCC: true, Arch: true}}}}
	return s
}

// Run is cargo, which removes what it is to clean.
func (s *scene) Run(_ context.Context, c buildenv.Cmd) (buildenv.Result, error) {
	if slices.Contains(c.Args, "-h") {
		return buildenv.Result{}, s.refuses
	}
	s.clean = append(s.clean, strings.Join(c.Args, " "))
	return buildenv.Result{}, os.RemoveAll(s.unit)
}

const kernelText = "//\n// Cuda compilation tools, release 13.4, V13.4.92\n//\n\n.version 9.4\n." + "target sm_%d\n.address_size 64\n.visible .entry k()\n{\n ret;\n}\n"

// script is a run of the build script that leaves a kernel for an architecture; 0: none.
func (s *scene) script(arch int) {
	s.at = s.at.Add(time.Minute)
	if arch > 0 {
		s.write(filepath.Join(s.unit, "out", "k.ptx"), fmt.Sprintf(kernelText, arch))
	}
	s.write(filepath.Join(s.unit, "out", "note"), "")
	for _, name := range []string{"invoked.timestamp", "output", "root-output"} {
		path := filepath.Join(s.unit, name)
		s.write(path, "cargo:rerun-if-changed=build.rs\n")
		hosttest.OK(s.t, os.Chtimes(path, s.at, s.at))
	}
}

// built is what cargo says after the script ran, or did not.
func (s *scene) built(compiled bool) cargorun.Built {
	lib := cargo.Message{Reason: cargo.Artifact, PackageID: s.id, Fresh: !compiled}
	lib.Target.Kind = []string{"lib"}
	return cargorun.Built{Messages: []cargo.Message{{Reason: cargo.ScriptExecuted, PackageID: s.id, OutDir: filepath.Join(s.unit, "out")}, lib}}
}

// record is a first build, whose script leaves a kernel for an architecture.
func (s *scene) record(arch int) {
	s.t.Helper()
	before, err := Inspect(s.s.b).Clean(s.t.Context())
	if err == nil {
		s.script(arch)
		_, _, err = before.RecordAndVerify(s.t.Context(), s.built(true), nil, nil)
	}
	if _, is := readStamp(s.s.b.Machine.Host, filepath.Join(s.unit, "out")); err != nil || !is || len(s.clean) > 0 {
		s.t.Fatalf("the first build: %v, a stamp: %v, cleaned %q", err, is, s.clean)
	}
}

// TestBuildAndVerify: what is cleaned before a build, what after it, and what is known in the end.
func TestBuildAndVerify(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		story string
		earlier,
		before func(*scene) // an earlier build, and what changed since; a bare script is one without gpubuild
		cargo func(*scene) cargorun.Built
		again func(*scene) (cargorun.Built, error) // nil: it is not built again
		early string                               // what is stale before the build, and why
		late  string                               // after it
		code  int
		stamp bool // of the last run
	}{
		{story: "a first build", cargo: func(s *scene) cargorun.Built { s.script(90); return s.built(true) }, stamp: true},
		{story: "a first build that waited for another cargo, and ran the script", cargo: func(s *scene) cargorun.Built {
			s.script(90)
			b := s.built(true)
			b.Waited = true
			return b
		}, again: rebuilt, late: "k: there is no record of what it was built with", stamp: true},
		{story: "nothing changed", earlier: recorded, cargo: func(s *scene) cargorun.Built { return s.built(false) }, stamp: true},
		{story: "cargo runs the script for reasons of its own", earlier: recorded,
			cargo: func(s *scene) cargorun.Built { s.script(90); return s.built(true) }, stamp: true},
		{story: "another nvcc", earlier: recorded, before: func(s *scene) { s.write(s.file("bin/nvcc"), "Cuda compilation tools, release 13.5") },
			cargo: func(s *scene) cargorun.Built { s.script(90); return s.built(true) }, early: "nvcc 13.4 ", stamp: true},
		{story: "another architecture", earlier: recorded, before: func(s *scene) { s.s.b.Tools.Set.Capability.Major = 8 },
			cargo: func(s *scene) cargorun.Built { s.script(80); return s.built(true) }, early: "arch sm_90 → sm_80: k", stamp: true},
		{story: "built by plain cargo", earlier: func(s *scene) { s.script(90) },
			cargo: func(s *scene) cargorun.Built { s.script(90); return s.built(true) }, early: "k: there is no record of what it was built with", stamp: true},
		{story: "a script of plain cargo that made no kernels", earlier: func(s *scene) { s.script(0) },
			cargo: func(s *scene) cargorun.Built { return s.built(false) }, again: rebuilt,
			late: "k: there is no record of what it was built with", stamp: true},
		{story: "what is stale has other features, and cargo takes it all the same", earlier: func(s *scene) { recorded(s); s.features("other") },
			before: func(s *scene) { s.s.b.Tools.Set.Capability.Major = 8 }, cargo: func(s *scene) cargorun.Built { return s.built(false) },
			again: func(s *scene) (cargorun.Built, error) { s.script(80); return s.built(true), nil }, late: "arch sm_90 → sm_80: k", stamp: true},
		{story: "cargo takes what is up to date with other features", earlier: func(s *scene) { recorded(s); s.features("other") },
			cargo: func(s *scene) cargorun.Built { return s.built(false) }, stamp: true},
		{story: "the script ran, and the crate is the old one", earlier: recorded, cargo: func(s *scene) cargorun.Built { s.script(90); return s.built(false) },
			again: rebuilt, late: "k: cargo took the crate for fresh although its build script ran", stamp: true},
		{story: "another cargo ran the script meanwhile, with the same result", earlier: recorded, cargo: func(s *scene) cargorun.Built {
			s.script(90)
			b := s.built(true)
			b.Waited = true
			return b
		}},
		{story: "another cargo ran the script meanwhile, with another result", earlier: recorded, cargo: func(s *scene) cargorun.Built {
			s.script(80)
			b := s.built(true)
			b.Waited = true
			return b
		}, again: rebuilt, late: "k: its build script was run by another cargo, and left other files", stamp: true},
		{story: "the second build fails", earlier: recorded, cargo: func(s *scene) cargorun.Built { s.script(90); return s.built(false) },
			again: func(s *scene) (cargorun.Built, error) { s.script(90); return cargorun.Built{}, exit.Code(101) },
			late:  "k: cargo took the crate for fresh although its build script ran", code: 101, stamp: true},
		{story: "the second build is interrupted", earlier: recorded, cargo: func(s *scene) cargorun.Built { s.script(90); return s.built(false) },
			again: func(s *scene) (cargorun.Built, error) {
				s.script(90)
				return cargorun.Built{Interrupted: true}, exit.Code(101)
			},
			late: "k: cargo took the crate for fresh although its build script ran", code: 101},
		{story: "it is stale after the second build, too", earlier: recorded, cargo: func(s *scene) cargorun.Built { s.script(90); return s.built(false) },
			again: func(s *scene) (cargorun.Built, error) { s.script(90); return s.built(false), nil },
			late:  "k: cargo took the crate for fresh although its build script ran", code: exit.Stale},
	} {
		t.Run(tt.story, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			for _, do := range []func(*scene){tt.earlier, tt.before} {
				if do != nil {
					do(s)
				}
			}
			before := hosttest.Must(Inspect(s.s.b).Clean(t.Context()))(t)
			early := len(s.clean)
			if got := strings.Join(before.Lines(), "; "); strings.Count(got, tt.early) > 1 && tt.early != "" || (early > 0) != (tt.early != "") || !strings.Contains(got, tt.early) || tt.early == "" && got != "" {
				t.Errorf("before: %q, cleaned %d, want %q", got, early, tt.early)
			}
			again := 0
			after, _, err := before.RecordAndVerify(t.Context(), tt.cargo(s), nil, func(context.Context) (cargorun.Built, error) {
				if again++; tt.again == nil {
					return cargorun.Built{}, errors.New("built again")
				}
				return tt.again(s)
			})
			hosttest.Equal(t, exit.Of(err), tt.code, "ends with", err)
			if late := len(s.clean) - early; late > 1 || (late == 1) != (tt.late != "") || again != late {
				t.Errorf("cleaned %d times and built %d times after the build, want %q", late, again, tt.late)
			}
			if got := strings.Join(after.Lines(), "; "); !strings.Contains(got, tt.late) {
				t.Errorf("after: %q, want %q", got, tt.late)
			}
			if want := early+again > 0; slices.Equal(after.Cleaned(), []string{"k"}) != want || len(after.Cleaned()) > 0 != want {
				t.Errorf("said to be cleaned: %q", after.Cleaned())
			}
			for _, c := range s.clean {
				if !strings.HasPrefix(c, "clean -p k") {
					t.Errorf("cargo %s", c)
				}
			}
			stamp, _ := readStamp(s.s.b.Machine.Host, filepath.Join(s.unit, "out"))
			hosttest.Equal(t, stamp.Ran == s.at.UnixNano(), tt.stamp, "a stamp of the last run")
			if toolkit, arch := after.Uses(); tt.code == 0 && !(toolkit && arch) {
				t.Error("the toolkit or the architecture is not used")
			}
		})
	}
}

func recorded(s *scene) { s.record(90) }

func rebuilt(s *scene) (cargorun.Built, error) { s.script(90); return s.built(true), nil }

// features are those with which k is built from now on.
func (s *scene) features(list ...string) { s.s.b.Reach.Units[0].Features = list }

// TestKeptOfAFailedBuild: of scripts that ran in a build that failed, only those get a stamp that found nothing, or what agreed. With it the
// records of earlier runs go, and those of calls that made nothing.
func TestKeptOfAFailedBuild(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		story  string
		before Before // known of it; Ran is that of its last run, less a minute where another one was before
		listed bool   // cargo says that the script ended well
		kept   bool
	}{
		{"it ran where there was nothing", Before{}, false, true},
		{"it did not run", Before{Ran: 0, Agreed: true}, false, false},
		{"it ran where all agreed", Before{Ran: -1, Agreed: true}, false, true},
		{"it ran where something was stale", Before{Ran: -1}, false, false},
		{"it ended well, and was recorded", Before{}, true, false},
	} {
		s := newScene(t)
		s.script(90)
		if tt.before != (Before{}) {
			tt.before.Ran = s.at.Add(time.Duration(tt.before.Ran) * time.Minute).UnixNano()
		}
		out := filepath.Join(s.unit, "out")
		for name, text := range map[string]string{
			"replaced": `{"call": "a", "ran": 1, "compiles": true, "made": ["1"]}`, "failed": `{"call": "b", "ran": RAN, "compiles": true}`,
			"made": `{"call": "a", "ran": RAN, "compiles": true, "made": ["2"]}`, "old": `{"call": "c", "ran": 1, "compiles": true, "made": ["3"]}`,
		} {
			s.write(filepath.Join(s.unit, "gpubuild-read-"+name+".json"), strings.Replace(text, "RAN", fmt.Sprint(s.at.UnixNano()), 1))
		}
		state := find(s.s.b)
		state.before = map[string]Before{out: tt.before}
		var built cargorun.Built
		if tt.listed {
			built = s.built(true)
		}
		state.keepFailed(built)
		if _, kept := readStamp(s.s.b.Machine.Host, out); kept != tt.kept {
			t.Errorf("%s: a stamp: %v", tt.story, kept)
		}
		left := hosttest.Must(filepath.Glob(filepath.Join(s.unit, "gpubuild-read-*")))(t)
		if want := map[bool]int{true: 2, false: 4}[tt.kept]; len(left) != want || !slices.Contains(left, filepath.Join(s.unit, "gpubuild-read-made.json")) {
			t.Errorf("%s: %d records are left, want %d: %q", tt.story, len(left), want, left)
		}
	}
}

// TestUserKeepsWhatIsStale: with --gpu-no-clean, or flags that cargo refuses, nothing is cleaned and the build ends; with --gpu-force-clean all is.
func TestUserKeepsWhatIsStale(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.record(90)
	s.s.b.Options.NoClean = true
	if _, err := Inspect(s.s.b).Clean(t.Context()); err != nil {
		t.Errorf("nothing is stale: %v", err)
	}
	s.s.b.Tools.Set.Capability.Major = 8
	s.said.Reset()
	if _, err := Inspect(s.s.b).Clean(t.Context()); exit.Of(err) != exit.Stale || len(s.clean) > 0 ||
		!strings.Contains(s.said.String(), "leave --gpu-no-clean out, or run cargo clean -p k") {
		t.Errorf("%v, cleaned %q: %s", err, s.clean, s.said.String())
	}
	s.s.b.Options, s.refuses = Options{}, errors.New("unexpected argument")
	if _, err := Inspect(s.s.b).Clean(t.Context()); !errors.Is(err, s.refuses) || len(s.clean) > 0 {
		t.Errorf("cargo refuses the command line of the build: %v, cleaned %q", err, s.clean)
	}
	s.refuses = nil
	s.s.b.Tools.Set.Capability.Major, s.s.b.Options = 9, Options{ForceClean: true}
	if next, err := Inspect(s.s.b).Clean(t.Context()); err != nil || len(s.clean) != 1 || !slices.Equal(next.Cleaned(), []string{"k"}) {
		t.Errorf("%v, cleaned %q", err, s.clean)
	}
}

// TestWhichOutDirsAreCompared before a build: those with a stamp for its features, or else those without one that hold device code or are half.
func TestWhichOutDirsAreCompared(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		story  string
		change func(*scene)
		want   string // the state of each
	}{
		{"a stamp for the features", func(s *scene) { s.record(90) }, agrees},
		{"a stamp for others", func(s *scene) { s.record(90); s.features("other") }, ""},
		{"a stamp of another version of the package", func(s *scene) { s.record(90); s.id = "registry+x#k@2.0.0"; s.is("2.0.0") }, ""},
		{"a stamp of the same package in another workspace", func(s *scene) { s.record(90); s.id = "path+file:///other/k#1.0.0"; s.is("1.0.0") }, unknown},
		{"another version of it in another workspace", func(s *scene) { s.record(90); s.id = "path+file:///other/k#2.0.0"; s.is("2.0.0") }, ""},
		{"no stamp, and device code", func(s *scene) { s.script(90) }, unknown},
		{"no stamp, and no device code", func(s *scene) { s.script(0) }, ""},
		{"no stamp, of a package that compiles none", func(s *scene) { s.script(0); s.s.b.Reach.Units[0].Inputs.Arch = false }, unknown},
		{"no stamp, and the script did not end", func(s *scene) { s.script(0); s.remove("output") }, unknown},
		{"a damaged stamp", func(s *scene) { s.script(0); s.write(filepath.Join(s.unit, stale.StampFile), "{") }, unknown},
		{"a stamp, and the script ran again and did not end", func(s *scene) { s.record(90); s.script(90); s.remove("output") }, unknown},
		{"what the script left is gone", func(s *scene) { s.record(90); s.remove("out/k.ptx") }, unknown},
	} {
		s := newScene(t)
		tt.change(s)
		var got []string
		for _, o := range Inspect(s.s.b).outs {
			got = append(got, o.state)
		}
		hosttest.Equal(t, strings.Join(got, " "), tt.want, tt.story, got)
	}
}

// is gives k another identity.
func (s *scene) is(version string) {
	s.s.b.Reach.Units[0].PkgID, s.s.b.Reach.Units[0].Version = s.id, version
}

func (s *scene) remove(name string) {
	s.t.Helper()
	hosttest.OK(s.t, os.Remove(filepath.Join(s.unit, filepath.FromSlash(name))))
}

// TestBuiltFor: the architecture of the newest stamp of a package that compiles for one, in this profile or in those that every project has.
func TestBuiltFor(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.s.b.Reach = &features.Reach{Units: []features.ScriptUnit{
		{PkgID: "k", Name: "k", Inputs: features.Inputs{Arch: true}}, {PkgID: "k", Name: "k"}, {PkgID: "links", Name: "links"}}}
	stamp := func(unit string, ran int64, arch string) {
		dir := filepath.Join(b.top, "target", filepath.FromSlash(unit))
		b.write(filepath.Join(dir, "invoked.timestamp"), "")
		data, err := stale.Stamp{PkgID: "p", Known: stale.Complete, Ran: ran, Inputs: []stale.Input{{Name: "nvcc", Value: "sm_60"}, {Name: "arch", Value: arch}}}.Encode()
		if err != nil {
			t.Fatal(err)
		}
		b.write(filepath.Join(dir, stale.StampFile), string(data))
	}
	look := func(want string) {
		t.Helper()
		if got := BuiltFor(b.s.b); gpu.Archs(got) != want {
			t.Errorf("built for %v, want %q", got, want)
		}
	}
	look("")
	stamp("debug/build/k-1", 5, "sm_80")
	stamp("debug/build/links-1", 9, "sm_70")
	stamp("own/build/k-1", 9, "sm_70")
	look("sm_80")
	stamp("debug/build/k-2", 4, "sm_70")
	look("sm_80")
	stamp("debug/build/k-3", 10, "no architecture")
	look("sm_80")
	stamp("release/build/k-1", 6, "sm_90a")
	look("sm_90a")
	b.s.b.Named = []string{"links"}
	look("sm_70")
	b.s.b.Graph.Places.BuildDirectory = ""
	look("")
}

// TestUndeclared: a package that shows only by what its script left compiles kernels; the name in gpubuild.toml comes first.
func TestUndeclared(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.s.b.Tools.Set.Toolkit = nil
	look := func(story, want string) {
		t.Helper()
		got := Undeclared(s.s.b, "")
		if text := fmt.Sprintf("%s %s named=%v: %s", got.Package, gpu.Archs(got.Archs), got.Named, got.Why); got.Package == "" && want != "" ||
			got.Package != "" && (want == "" || !strings.HasPrefix(text, want)) {
			t.Errorf("%s: %q, want %q", story, text, want)
		}
	}
	s.s.b.Reach.Units[0].Inputs = features.Inputs{}
	look("a package that uses nothing of the toolkit's compilers", "")
	s.script(90)
	look("it is declared, whatever is there", "")
	s.s.b.Named = []string{"k"}
	look("named", "k ")
	if got := Undeclared(s.s.b, ""); !got.Named {
		t.Error("it is not said to be named")
	}
	// with the features that make it a known one it takes CXX, too, and must not be built again for others
	u := s.s.b.Reach.Units[0]
	u.Inputs = features.Inputs{NVCC: true, CXX: true}
	s.s.b.Reach.Others, s.s.b.Reach.Units = []features.ScriptUnit{u}, nil
	s.s.b.Graph.Units = &graph.Graph{Units: []graph.Unit{{PkgID: u.PkgID, Mode: runsScript}}}
	if list := s.s.findPackages(); len(list) != 1 || !list[0].Inputs.CXX || !list[0].Inputs.Arch {
		t.Errorf("%+v", list)
	}
}

// TestPrintFresh: what is up to date and what is not built yet are distinguished by the features of this build.
func TestPrintFresh(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*scene){
		"k: up to date\n": func(s *scene) { s.record(90) },
		"no GPU package has been built with these features: k\n":          func(*scene) {},
		"k: up to date; not built yet: other\n":                           func(s *scene) { s.record(90); s.other() },
		"nothing to check: no selected package uses the CUDA toolchain\n": func(s *scene) { s.s.b.Reach = &features.Reach{} },
		"no GPU package has been built with these features: k, other\n":   func(s *scene) { s.record(90); s.features("x"); s.other() },
	} {
		s := newScene(t)
		change(s)
		s.said.Reset()
		state := Inspect(s.s.b)
		r := state.Report()
		if state.PrintFresh(r); !strings.HasSuffix(s.said.String(), "Fresh "+want) {
			t.Errorf("got %q, want %q", s.said.String(), want)
		}
		if message, found := state.Verdict(r); message != "" || len(found) > 0 {
			t.Errorf("nothing is stale: %q %v", message, found)
		}
	}
}

func (s *scene) other() {
	s.s.b.Reach.Units = append(s.s.b.Reach.Units, features.ScriptUnit{PkgID: "path+file:///other#1.0.0", Name: "other", Version: "1.0.0",
		Dir: filepath.Join(s.top, "other"), Inputs: features.Inputs{NVCC: true, Arch: true}})
}

// TestReport: what `gpubuild stale` prints and writes of a package that is stale, of one that was never recorded, and where cargo gives no graph.
func TestReport(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.record(90)
	s.s.b.Tools.Set.Capability.Major = 8
	state := Inspect(s.s.b)
	r := state.Report()
	explained := func(r Report, explain bool) string {
		lines, err := state.Text(r, explain, "")
		hosttest.OK(t, err)
		return strings.Join(lines, "\n")
	}
	text := explained(r, true)
	message, found := state.Verdict(r)
	if len(r.Units) != 1 || !r.Units[0].Recorded || r.Units[0].State != differs || r.Units[0].Features != "cuda" || !slices.Equal(r.Clean, []string{"k"}) ||
		!strings.HasPrefix(text, "arch sm_90 → sm_80: k\nk [cuda]: stale\n  built in ") || !strings.HasSuffix(text, "\n  arch: built with sm_90, now sm_80\n  none: no compilation by nvcc is recorded; every file of the package counts") ||
		strings.Contains(text, "ptxas") || message != "arch sm_90 → sm_80: k" || len(found) != 1 || found[0].ID != "stale.found" {
		t.Errorf("%+v\n%s\n%q %v", r.Clean, text, message, found)
	}
	hosttest.Equal(t, explained(r, false), "arch sm_90 → sm_80: k", "without --explain")
	s.s.b.Tools.Set.Capability.Major = 9
	state = Inspect(s.s.b)
	if got := explained(state.Report(), true); !strings.HasPrefix(got, "k [cuda]: fresh, arch sm_90, host compiler ") && !strings.HasPrefix(got, "k [cuda]: fresh, arch sm_90, nvcc 13.4: ") {
		t.Errorf("up to date: %q", got)
	}
	s.remove(stale.StampFile)
	s.s.b.Reach.Unknown = "an old cargo"
	state = Inspect(s.s.b)
	r = state.Report()
	text = explained(r, true)
	if !strings.HasPrefix(text, "unknown: k: there is no record of what it was built with\nunknown: the packages of this build: an old cargo\n"+
		"k [cuda]: unknown (there is no record of what it was built with)\n  built in ") || !strings.Contains(text, "\n  arch: now sm_90") || r.Units[0].Recorded {
		t.Error(text)
	}
	s.s.b.Reach.Units = nil
	state = Inspect(s.s.b)
	if message, _ := state.Verdict(state.Report()); message != "not known: an old cargo" {
		t.Errorf("where the packages are unknown: %q", message)
	}
}

// TestStampCannotBeWritten: it is said once, and the build stays good.
func TestStampCannotBeWritten(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.script(90)
	s.write(filepath.Join(s.unit, stale.StampFile, "in the way"), "")
	state := find(s.s.b)
	state.before = nil
	var err error
	for range 2 {
		state, _, err = state.RecordAndVerify(t.Context(), s.built(true), nil, nil)
	}
	if f := state.Findings(); err != nil || len(f) != 1 || f[0].ID != "stale.unrecorded" {
		t.Errorf("%v %v", err, f)
	}
	hosttest.Equal(t, strings.Count(s.said.String(), "cannot write down what k was built with"), 1, "said", "times")
}

// TestNotAll: an OUT_DIR with more files than are looked at, and a lock that others could take, are errors; without any place for a lock
// there is none, and that is said.
func TestNotAll(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.script(90)
	out := filepath.Join(s.unit, "out")
	host := s.s.b.Machine.Host
	if _, _, err := below(host, out); err != nil {
		t.Error(err)
	}
	host.Files = crowded{host.Files, out}
	if _, _, err := below(host, out); err == nil {
		t.Error("what was not looked at is known")
	}
	m := *s.s.b.Machine
	if free, err := Lock(t.Context(), &m, s.s.b.Graph.Places); err != nil {
		t.Error(err)
	} else {
		free()
		free()
	}
	hosttest.OK(t, os.Chmod(filepath.Join(m.CacheDir, "locks"), 0o777))
	if _, err := Lock(t.Context(), &m, s.s.b.Graph.Places); err == nil && runtime.GOOS != "windows" {
		t.Error("a directory that others may write to is taken for locks")
	}
	m.CacheDir = filepath.Join(out, "note", "cache") // below a file: nothing can be kept there
	free, err := Lock(t.Context(), &m, s.s.b.Graph.Places)
	if err != nil || !strings.Contains(s.said.String(), "a second gpubuild is not kept out") {
		t.Fatalf("%v: %s", err, s.said.String())
	}
	free()
}
