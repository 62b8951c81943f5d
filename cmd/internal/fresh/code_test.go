package fresh

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gpubuild/buildenv/cache"
	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/hosttest"
	"gpubuild/buildenv/local"
	"gpubuild/buildenv/memo"
	"gpubuild/buildenv/stale"
	"gpubuild/cmd/internal/cargorun"
	"gpubuild/cmd/internal/console"
	"gpubuild/cmd/internal/session"
	"gpubuild/features"
	"gpubuild/gpu"
	"gpubuild/gpu/fatbin"
	"gpubuild/toolchain/cargo"
	"gpubuild/toolchain/cuda"
	"gpubuild/toolchain/nvcc"
)

// tree makes files below a new directory; a name that ends in a slash is a directory.
func tree(t *testing.T, files map[string]string) (*State, string) {
	t.Helper()
	h := hosttest.Must(local.Host())(t)
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		hosttest.OK(t, os.MkdirAll(filepath.Dir(path), 0o755))
		hosttest.OK(t, os.WriteFile(path, []byte(text), 0o644))
	}
	m := &session.Machine{
		Host:     h,
		CacheDir: filepath.Join(dir, ".cache"),
		Shell:    &console.Shell{Out: io.Discard, Err: io.Discard},
		Began:    time.Now(),
	}
	b := Build{Machine: m, Reach: &features.Reach{}}
	return &State{b: b, read: newReader(b)}, dir
}

func TestBelow(t *testing.T) {
	s, dir := tree(t, map[string]string{
		"a.ptx": "x", "b.cubin": "x", "c.o": "x", "deep/er/libk.a": "x", "no-ending": "x", "k.obj": "x",
		"empty.ptx": "", "gen.rs": "x", "flags.make": "x", "ptx.cu": "x",
		"libcublas_static.a": "x", "libcudnn_ops.so.9": "x", "cublas.lib": "x",
		".cudaforge_cache.json": "{}", "build/CMakeCache.txt": "x", "cache.json": "x",
		"build/CMakeFiles/3.25.1/CompilerIdCUDA/a.out": "x", "build/CMakeFiles/3.25.1/CMakeDetermineCompilerABI_CUDA.bin": "x", "build/CMakeFiles/CMakeScratch/x.o": "x",
		"build/CMakeFiles/k.dir/k.cu.o": "x", "src/.git/objects/aa": "x",
	})
	files, _, err := below(s.b.Machine.Host, dir)
	if err != nil {
		t.Fatal(err)
	}
	rel := func(list []string) (out []string) {
		for _, p := range list {
			r := hosttest.Must(filepath.Rel(dir, p))(t)
			out = append(out, filepath.ToSlash(r))
		}
		slices.Sort(out)
		return out
	}
	hosttest.Equal(t, strings.Join(rel(files), " "), "a.ptx b.cubin build/CMakeFiles/k.dir/k.cu.o c.o deep/er/libk.a empty.ptx gen.rs k.obj no-ending")
	if files, _, err := below(s.b.Machine.Host, filepath.Join(dir, "none")); err != nil || len(files) > 0 {
		t.Errorf("a directory that is not there: %v %v", files, err)
	}
}

func TestHoldsIsReadAgain(t *testing.T) {
	const ptx = "." + "version 9.4\n." + "target %s\n." + "address_size 64\n.visible ." + "entry k()\n{\n ret;\n}\n"
	s, dir := tree(t, map[string]string{"out/k.ptx": fmt.Sprintf(ptx, "sm_75"), "out/sub/note.txt": ""})
	out := filepath.Join(dir, "out")
	read := func() string {
		t.Helper()
		found := hosttest.Must(s.read.contentOf(out))(t)
		var names []string
		for _, m := range found.Made {
			names = append(names, m.Arch.String())
		}
		return strings.Join(names, " ")
	}
	hosttest.Equal(t, read()+read(), "compute_75compute_75")
	hosttest.OK(t, cache.WriteFile(filepath.Join(out, "k.ptx"), []byte(fmt.Sprintf(ptx, "sm_80")), 0o644))
	hosttest.Equal(t, read(), "compute_80", "the file holds sm_80, and", "was reported")
	hosttest.OK(t, os.WriteFile(filepath.Join(out, "sub", "l.ptx"), []byte(fmt.Sprintf(ptx, "sm_90")), 0o644))
	hosttest.Equal(t, read(), "compute_80 compute_90", "after a file came")
	hosttest.OK(t, os.RemoveAll(out))
	hosttest.Equal(t, read(), "", "kept of a directory that is gone")
}

// TestLargeFilesAreNotRead: of an archive a hole of terabytes takes a kilobyte.
func TestLargeFilesAreNotRead(t *testing.T) {
	t.Parallel()
	s, dir := tree(t, map[string]string{"out/model.gguf": "x", "out/k.rs": "x"})
	for _, name := range []string{"model.gguf", "k.rs"} {
		hosttest.OK(t, os.Truncate(filepath.Join(dir, "out", name), memo.Largest+1))
	}
	found := hosttest.Must(s.read.contentOf(filepath.Join(dir, "out")))(t)
	if len(found.Files) != 2 || !strings.HasPrefix(found.Files[1], fmt.Sprintf("file /model.gguf large %d ", int64(memo.Largest+1))) {
		t.Errorf("%q", found.Files)
	}
}

// TestSumNamesFiles: two OUT_DIRs have one sum only where the same files hold the same.
func TestSumNamesFiles(t *testing.T) {
	t.Parallel()
	ptx := func(name string) string {
		return "." + "version 9.4\n." + "target sm_90\n." + "address_size 64\n.visible ." + "entry " + name + "()\n{\n ret;\n}\n"
	}
	s, dir := tree(t, map[string]string{
		"a/j.ptx": ptx("one"), "a/k.ptx": ptx("two"), "a/note.txt": "1",
		"elsewhere/j.ptx": ptx("one"), "elsewhere/k.ptx": ptx("two"), "elsewhere/note.txt": "2",
		"swapped/j.ptx": ptx("two"), "swapped/k.ptx": ptx("one"),
		"twice/j.ptx": ptx("one"), "twice/k.ptx": ptx("one"), "once/k.ptx": ptx("one"),
		"deep/x/k.ptx": ptx("one"), "hex/k.hex": "2e76", "truncated/k.hex": "2e", "empty/k.hex": "", "hex2/j.hex": "2e76",
	})
	of := map[string]string{}
	for _, name := range []string{"a", "elsewhere", "swapped", "twice", "once", "deep", "hex", "truncated", "empty", "hex2"} {
		found := hosttest.Must(s.read.contentOf(filepath.Join(dir, name)))(t)
		for other, sum := range of {
			if same := other == "a" && name == "elsewhere"; (sum == strings.Join(found.Files, "\n")) != same {
				t.Errorf("%s and %s: the same sum: %t", other, name, !same)
			}
		}
		if name != "elsewhere" {
			of[name] = strings.Join(found.Files, "\n")
		}
	}
}

// TestRunByAnotherCargo: what another cargo's script left is taken for what it was only where there is device code to compare.
func TestRunByAnotherCargo(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	known := []made{{NVCC: "13.4"}}
	for _, c := range []struct {
		story string
		code  []made
		arch  bool
		later time.Duration
		sum   string // of what is there
		want  string
		ended bool
	}{
		{"a run that has not ended", known, true, time.Hour, "1", unknown, false},
		{"an older run that has not ended", known, true, -time.Hour, "1", unknown, false},
		{"nothing ran", nil, true, 0, "1", agrees, true},
		{"from an archive", nil, true, time.Second, "1", agrees, true},
		{"the same device code", known, true, time.Hour, "1", agrees, true},
		{"nothing to compare", nil, true, time.Hour, "1", unknown, true},
		{"a script that compiles nothing", nil, false, time.Hour, "1", agrees, true},
		{"other files", known, true, time.Hour, "2", unknown, true},
		{"changed by hand", known, true, 0, "2", unknown, true},
		{"a file that a program wrote since", known, true, 0, "1 2", agrees, true},
		{"a file more of another cargo", known, true, time.Hour, "1 2", unknown, true},
	} {
		p := Package{ScriptUnit: features.ScriptUnit{PkgID: "p", Name: "k", Dir: filepath.Join(b.top, "package")}}
		p.Inputs.Arch = c.arch
		now := b.s.inputsOf(p, false, false)
		o := outDir{pkg: p, dir: filepath.Join(b.top, "out"), finished: c.ended, stamped: true, content: content{Files: strings.Fields(c.sum), Made: c.code}}
		o.stamp = stale.Stamp{PkgID: "p", Inputs: now, Files: []string{"1"}, Known: stale.Complete, Ran: 1}
		o.ran = 1 + int64(c.later)
		if o := b.s.judge(o); o.state != c.want {
			t.Errorf("%s: %s (%s)", c.story, o.state, o.why)
		}
	}
}

// TestOtherCode: code of another release or for another architecture than was chosen is warned of, unless some of it is as was chosen.
func TestOtherCode(t *testing.T) {
	t.Parallel()
	of := func(major int, nvcc string) made {
		return made{Arch: gpu.Arch{Capability: gpu.Capability{Major: major}}, NVCC: nvcc}
	}
	var o outDir
	o.pkg.Name, o.pkg.Inputs.Arch = "k", true
	for want, list := range map[string][][]made{
		"":                                  {nil, {of(9, "13.4")}, {of(8, "13.4"), of(9, "13.3")}, {of(9, "")}, {of(0, "13.4")}},
		"k did not use the chosen nvcc":     {{of(9, "13.3")}, {of(9, "12.4")}, {of(9, ""), of(9, "13.3")}},
		"k holds sm_80 code from nvcc 13.4": {{of(8, "13.4")}, {of(8, "13.4"), of(8, "13.3")}},
	} {
		for _, code := range list {
			s := &State{}
			s.b.Tools.Set.Toolkit, s.b.Tools.Set.Capability = &cuda.Toolkit{Version: gpu.Version{Major: 13, Minor: 4}}, gpu.Capability{Major: 9}
			o.content.Made = code
			if got := s.otherCode(o); (got == "") != (want == "") || !strings.HasPrefix(got, want) {
				t.Errorf("%v: %q, want %q", code, got, want)
			}
		}
	}
}

// TestWarnsOfCode: a finding, where a script compiled for another architecture than was chosen, and where nvcc left no kernel of a source that
// it read from a pipe; none where the source just has no kernel.
func TestWarnsOfCode(t *testing.T) {
	t.Parallel()
	found := func(s *State) (list []string) {
		for _, f := range s.Findings() {
			list = append(list, f.ID+": "+f.Message)
		}
		return list
	}
	for arch, want := range map[int]string{90: "", 75: "stale.other-code: k holds PTX 9.4 for compute_75 from nvcc 13.4.92; sm_90 was chosen"} {
		s := newScene(t)
		before := hosttest.Must(Inspect(s.s.b).Clean(t.Context()))(t)
		s.script(arch)
		after, _, err := before.RecordAndVerify(t.Context(), s.built(true), nil, nil)
		hosttest.OK(t, err)
		hosttest.Equal(t, strings.Join(found(after), "\n"), want, arch)
		hosttest.Equal(t, strings.Contains(s.said.String(), "sm_90 was chosen"), want != "", "said", s.said.String())
	}
	s := newScene(t)
	o := outDir{pkg: Package{ScriptUnit: s.s.b.Reach.Units[0]}}
	o.content.Code = []codeFile{{Name: "k.o", Objects: fatbin.Objects{Device: []string{"1"}}, Empty: true}, {Name: "none.o", Objects: fatbin.Objects{Device: []string{"2"}}, Empty: true}, {Name: "l.o", Objects: fatbin.Objects{Device: []string{"3"}}}}
	s.s.warnOfEmpty(o, knowledge{records: nvcc.Known{Once: map[string]bool{"1": true, "2": false, "3": true}}})
	hosttest.Equal(t, strings.Join(found(s.s), "\n"), "stale.other-code: k: nvcc left no kernel in k.o, whose source it read from a pipe", "a pipe")
}

// TestFailedBuild: of a build that failed by itself the stamp is written, and what has none is cleaned and built once more; neither is done
// where the user ended it, and no stamp is written where another cargo may have run the script.
func TestFailedBuild(t *testing.T) {
	t.Parallel()
	failed := errors.New("cargo failed")
	for _, tt := range []struct {
		story     string
		built     cargorun.Built
		kept      bool // the stamp of a script that failed
		rebuilds  bool // what an earlier script left without a stamp
		ofEarlier bool
	}{
		{"a script that failed", cargorun.Built{}, true, false, false},
		{"it waited for another cargo", cargorun.Built{Waited: true}, false, false, false},
		{"interrupted", cargorun.Built{Interrupted: true}, false, false, false},
		{"no stamp of what an earlier script left", cargorun.Built{}, false, true, true},
		{"the same, interrupted", cargorun.Built{Interrupted: true}, false, false, true},
	} {
		b := newBench(t)
		b.s.b.Machine.Shell.Err = io.Discard
		unit := filepath.Join(b.top, "target", "debug", "build", "k-1")
		b.write(filepath.Join(unit, "invoked.timestamp"), "")
		b.write(filepath.Join(unit, "out", "a.o"), "")
		b.s.b.Options.NoClean = true // cleaning is an error then, which says that it was tried
		b.s.b.Reach = &features.Reach{Units: []features.ScriptUnit{{PkgID: "path+file:///k#1.0.0", Name: "k",
			Dir: filepath.Join(b.top, "package"), Inputs: features.Inputs{NVCC: true, Arch: true}}}}
		b.s = find(b.s.b)
		if tt.ofEarlier {
			b.s.before = b.s.seen()
			tt.built.Messages = []cargo.Message{{Reason: cargo.ScriptExecuted, PackageID: "path+file:///k#1.0.0", OutDir: filepath.Join(unit, "out")}}
		}
		_, _, err := b.s.RecordAndVerify(context.Background(), tt.built, failed, nil)
		if rebuilds := exit.Of(err) == exit.Stale; rebuilds != tt.rebuilds || !rebuilds && !errors.Is(err, failed) {
			t.Errorf("%s: %v", tt.story, err)
		}
		if _, kept := readStamp(b.s.b.Machine.Host, filepath.Join(unit, "out")); kept != tt.kept {
			t.Errorf("%s: a stamp is there: %v", tt.story, kept)
		}
	}
}

// TestManyInputs: a stamp may come with the project, with as many inputs as 16 MiB hold. Where each is compared with every other one, this
// test does not end before the tests' own limit.
func TestManyInputs(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := Package{ScriptUnit: features.ScriptUnit{PkgID: "p", Name: "k", Dir: filepath.Join(b.top, "package")}}
	o := outDir{pkg: p, dir: filepath.Join(b.top, "out"), finished: true, stamped: true, stamp: stale.Stamp{PkgID: "p", Known: stale.Complete, Ran: 1}}
	const many = 300_000
	for i := range many {
		o.stamp.Inputs = append(o.stamp.Inputs, stale.Input{Name: fmt.Sprint("source//a", i), Value: fmt.Sprint("a", i), Hash: "1"})
		o.stamp.Files = append(o.stamp.Files, fmt.Sprint("b", i))
	}
	o = b.s.judge(o)
	b.s.outs = []outDir{o}
	if got := len(b.s.Reasons()); got < many {
		t.Errorf("%d reasons", got)
	}
}
