package stale_test

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"gpubuild/buildenv/stale"
)

var (
	kernels = stale.Key{PkgID: "registry+x#candle-kernels@0.11.1", OutDir: "/t/debug/build/candle-kernels-1/out"}
	cudarc  = stale.Key{PkgID: "registry+x#cudarc@0.19.10", Features: "cuda-13040,std", OutDir: "/t/debug/build/cudarc-1/out"}
	release = stale.Key{PkgID: kernels.PkgID, OutDir: "/t/release/build/candle-kernels-2/out"}
)

func name(k stale.Key) string {
	if k.PkgID == cudarc.PkgID {
		return "cudarc"
	}
	return "candle-kernels"
}

// built and unit take inputs as "name=value" or "name=value#hash".
func built(k stale.Key, ran int64, inputs ...string) stale.Entry {
	return stale.Entry{Key: k, Package: name(k), ScriptRan: ran, Inputs: parse(inputs)}
}

func unit(k stale.Key, ran int64, inputs ...string) stale.Unit {
	return stale.Unit{Key: k, Package: name(k), ScriptRan: ran, Inputs: parse(inputs)}
}

func parse(inputs []string) []stale.Input {
	var out []stale.Input
	for _, s := range inputs {
		n, v, _ := strings.Cut(s, "=")
		v, hash, _ := strings.Cut(v, "#")
		out = append(out, stale.Input{Name: n, Value: v, Hash: hash})
	}
	return out
}

func TestCompare(t *testing.T) {
	const nvcc133, nvcc134 = "nvcc=13.3 /a/bin/nvcc 10+1+1", "nvcc=13.4 /b/bin/nvcc 12+2+2"
	tests := []struct {
		story   string
		old     []stale.Entry
		now     []stale.Unit
		reasons []string
		clean   []string
		unknown []string
	}{
		{story: "nothing changed",
			old: []stale.Entry{built(kernels, 5, nvcc133, "arch=sm_90")},
			now: []stale.Unit{unit(kernels, 5, "arch=sm_90", nvcc133)}},
		{story: "another nvcc came first on PATH, which cargo does not see",
			old:     []stale.Entry{built(kernels, 5, nvcc133), built(cudarc, 6, nvcc133)},
			now:     []stale.Unit{unit(kernels, 5, nvcc134), unit(cudarc, 6, nvcc134)},
			reasons: []string{"nvcc 13.3 → 13.4: candle-kernels", "nvcc 13.3 → 13.4: cudarc"},
			clean:   []string{"candle-kernels", "cudarc"}},
		{story: "the toolkit was replaced in its place by the same version",
			old:     []stale.Entry{built(kernels, 5, nvcc133)},
			now:     []stale.Unit{unit(kernels, 5, "nvcc=13.3 /a/bin/nvcc 11+7+1")},
			reasons: []string{"nvcc 13.3 /a/bin/nvcc 10+1+1 → 13.3 /a/bin/nvcc 11+7+1: candle-kernels"},
			clean:   []string{"candle-kernels"}},
		{story: "the toolkit was replaced in its place, and calls itself the same",
			old:     []stale.Entry{built(kernels, 5, "nvcc=13.3 /a/bin/nvcc#c0ffee")},
			now:     []stale.Unit{unit(kernels, 5, "nvcc=13.3 /a/bin/nvcc#decaf")},
			reasons: []string{"nvcc 13.3 /a/bin/nvcc → other content at the same path: candle-kernels"},
			clean:   []string{"candle-kernels"}},
		{story: "its content could not be read then: the value decides",
			old: []stale.Entry{built(kernels, 5, "nvcc=13.3 /a/bin/nvcc")},
			now: []stale.Unit{unit(kernels, 5, "nvcc=13.3 /a/bin/nvcc#decaf")}},
		{story: "a variable that is set and says nothing is not one that is not set",
			old:     []stale.Entry{built(kernels, 5, "CUDA_NVCC_FLAGS=")},
			now:     []stale.Unit{unit(kernels, 5)},
			reasons: []string{"CUDA_NVCC_FLAGS \"\" → none: candle-kernels"},
			clean:   []string{"candle-kernels"}},
		{story: "the same toolkit lies elsewhere now",
			old: []stale.Entry{built(kernels, 5, "nvcc=13.3 /a/bin/nvcc 10+1+1#c0ffee")},
			now: []stale.Unit{unit(kernels, 5, "nvcc=13.3 /b/bin/nvcc 10+9+9#c0ffee")}},
		{story: "only the package that reads an input is touched by it",
			old:     []stale.Entry{built(kernels, 5, "arch=sm_90", nvcc133), built(cudarc, 6, nvcc133)},
			now:     []stale.Unit{unit(kernels, 5, "arch=sm_80", nvcc133), unit(cudarc, 6, nvcc133)},
			reasons: []string{"arch sm_90 → sm_80: candle-kernels"},
			clean:   []string{"candle-kernels"}},
		{story: "a variable was set that was not, and another is gone",
			old:     []stale.Entry{built(kernels, 5, "CUDAFORGE_HOME=/x y")},
			now:     []stale.Unit{unit(kernels, 5, "NVCC_CCBIN=g++-12")},
			reasons: []string{"CUDAFORGE_HOME /x y → none: candle-kernels", "NVCC_CCBIN none → g++-12: candle-kernels"},
			clean:   []string{"candle-kernels"}},
		{story: "paths with spaces are told whole",
			old:     []stale.Entry{built(kernels, 5, `host compiler=C:\Program Files\A\cl.exe`)},
			now:     []stale.Unit{unit(kernels, 5, `host compiler=D:\VS 2022\cl.exe`)},
			reasons: []string{`host compiler C:\Program Files\A\cl.exe → D:\VS 2022\cl.exe: candle-kernels`},
			clean:   []string{"candle-kernels"}},
		{story: "both profiles hold the package; one clean names it once",
			old:     []stale.Entry{built(kernels, 5, nvcc133), built(release, 6, nvcc133)},
			now:     []stale.Unit{unit(kernels, 5, nvcc134), unit(release, 6, nvcc134)},
			reasons: []string{"nvcc 13.3 → 13.4: candle-kernels", "nvcc 13.3 → 13.4: candle-kernels"},
			clean:   []string{"candle-kernels"}},
		{story: "plain cargo ran the script since",
			old:     []stale.Entry{built(kernels, 5, nvcc133)},
			now:     []stale.Unit{unit(kernels, 9, nvcc133)},
			unknown: []string{"candle-kernels: its build script has run since without gpubuild"}},
		{story: "a twin in another workspace had the same OUT_DIR",
			old: []stale.Entry{built(kernels, 5, nvcc133),
				{Key: stale.Key{PkgID: "path+file:///other#kernels@0.1.0", OutDir: kernels.OutDir}, Package: "kernels", Inputs: parse([]string{nvcc133}), ScriptRan: 9}},
			now:     []stale.Unit{unit(kernels, 9, nvcc133)},
			unknown: []string{"candle-kernels: built since for another workspace (path+file:///other#kernels@0.1.0)"}},
		{story: "the same, and this workspace has never been recorded",
			old: []stale.Entry{
				{Key: stale.Key{PkgID: "path+file:///other#kernels@0.1.0", OutDir: kernels.OutDir}, Package: "kernels", Inputs: parse([]string{nvcc133}), ScriptRan: 9}},
			now:     []stale.Unit{unit(kernels, 9, nvcc133)},
			unknown: []string{"candle-kernels: built since for another workspace (path+file:///other#kernels@0.1.0)"}},
		{story: "CI restored an older target directory",
			old:     []stale.Entry{built(kernels, 5, nvcc133)},
			now:     []stale.Unit{unit(kernels, 3, nvcc133)},
			unknown: []string{"candle-kernels: its build script has run since without gpubuild"}},
		{story: "the build directory was emptied by hand",
			old:     []stale.Entry{built(kernels, 5, nvcc133)},
			now:     []stale.Unit{unit(kernels, 0, nvcc134)},
			unknown: []string{"candle-kernels: its build script's last run cannot be found"}},
		{story: "no time was recorded",
			old:     []stale.Entry{built(kernels, 0, nvcc133)},
			now:     []stale.Unit{unit(kernels, 4, nvcc133)},
			unknown: []string{"candle-kernels: when its build script ran was not recorded"}},
		{story: "first run in an old target directory",
			now:     []stale.Unit{unit(kernels, 5, nvcc133), unit(cudarc, 6, nvcc133)},
			unknown: []string{"candle-kernels: no earlier build of it is recorded", "cudarc: no earlier build of it is recorded"}},
		{story: "the release build was never recorded, the debug build is stale",
			old:     []stale.Entry{built(kernels, 5, nvcc133)},
			now:     []stale.Unit{unit(kernels, 5, nvcc134), unit(release, 6, nvcc134)},
			reasons: []string{"nvcc 13.3 → 13.4: candle-kernels"},
			clean:   []string{"candle-kernels"},
			unknown: []string{"candle-kernels: no earlier build of it is recorded"}},
		{story: "of two entries for one key the later one counts",
			old: []stale.Entry{built(kernels, 1, nvcc133), built(kernels, 5, nvcc134)},
			now: []stale.Unit{unit(kernels, 5, nvcc134)}},
		{story: "a value that is not UTF-8 is the same after it was written",
			old: []stale.Entry{built(kernels, 5, "CUDA_HOME=/caf\xe9")},
			now: []stale.Unit{unit(kernels, 5, "CUDA_HOME=/caf\xe9")}},
	}
	for _, tt := range tests {
		t.Run(tt.story, func(t *testing.T) {
			// Through the file, as in life.
			data, err := stale.Record{}.Merge(nil).Encode()
			if len(tt.old) > 0 {
				data, err = stale.Record{Entries: tt.old}.Encode()
			}
			if err != nil {
				t.Fatal(err)
			}
			old, err := stale.Decode(data)
			if err != nil {
				t.Fatal(err)
			}
			res := stale.Compare(old, tt.now)
			var reasons, unknown []string
			for _, r := range res.Reasons {
				reasons = append(reasons, r.String())
			}
			for _, d := range res.Unknown {
				unknown = append(unknown, d.Package+": "+d.Why)
				// What another workspace built may come of other sources, so that it must never be taken over.
				if d.Foreign != strings.Contains(d.Why, "another workspace") {
					t.Errorf("%s: foreign: %v", d.Why, d.Foreign)
				}
			}
			for _, x := range []struct {
				what      string
				got, want []string
			}{{"reasons", reasons, tt.reasons}, {"clean", res.Clean, tt.clean}, {"unknown", unknown, tt.unknown}} {
				if !slices.Equal(x.got, x.want) {
					t.Errorf("%s: got %q, want %q", x.what, x.got, x.want)
				}
			}
		})
	}
}

func TestToAndFroBetweenTwoFeatureSets(t *testing.T) {
	dynamic := cudarc
	dynamic.Features, dynamic.OutDir = "dynamic-linking,std", "/t/debug/build/cudarc-9/out"
	r := stale.Record{}.Merge([]stale.Entry{built(cudarc, 5, "nvcc=13.3")})
	r = r.Merge([]stale.Entry{built(dynamic, 6, "nvcc=13.4")})

	// Back to the first set: cargo says Finished, whatever changed in between.
	res := stale.Compare(r, []stale.Unit{unit(cudarc, 5, "nvcc=13.4")})
	if len(res.Reasons) != 1 || res.Reasons[0].String() != "nvcc 13.3 → 13.4: cudarc" {
		t.Errorf("going back after a change: %+v", res)
	}
	r = r.Merge([]stale.Entry{built(cudarc, 7, "nvcc=13.4")})
	res = stale.Compare(r, []stale.Unit{unit(cudarc, 7, "nvcc=13.4"), unit(dynamic, 6, "nvcc=13.4")})
	if len(res.Reasons)+len(res.Unknown) != 0 {
		t.Errorf("both are built with what is there now: %+v", res)
	}
	if got := r.Of(cudarc.PkgID, cudarc.Features); len(got) != 1 || got[0].ScriptRan != 7 {
		t.Errorf("Of: %+v", got)
	}
}

func TestMergeKeepsTheNewestOfEachPackage(t *testing.T) {
	var r stale.Record
	r = r.Merge([]stale.Entry{built(cudarc, 1, "nvcc=13.3")})
	for i := range 3 * stale.Kept {
		k := kernels
		k.OutDir = fmt.Sprintf("/t/%d/out", i)
		r = r.Merge([]stale.Entry{built(k, int64(i+1), "nvcc=13.4")})
	}
	if got, want := len(r.Entries), stale.Kept+1; got != want {
		t.Fatalf("%d entries, want %d", got, want)
	}
	if r.Entries[0].Package != "cudarc" {
		t.Error("another package's entries pushed cudarc's out")
	}
	if last := r.Entries[len(r.Entries)-1].ScriptRan; last != 3*stale.Kept {
		t.Errorf("newest entry ran at %d", last)
	}
}

func TestLines(t *testing.T) {
	got := stale.Lines([]stale.Reason{
		{Package: "candle-kernels", Input: "CUDA headers", Old: "13.3 /a", New: "13.4 /b"},
		{Package: "candle-kernels", Input: "nvcc", Old: "13.3 /a", New: "13.4 /b"},
		{Package: "candle-kernels", Input: "arch", Old: "sm_80", New: "sm_90"},
		{Package: "cudarc", Input: "nvcc", Old: "13.3 /a", New: "13.4 /b"},
		{Package: "cudarc", Input: "nvcc", Old: "13.3 /a", New: "13.4 /b"},
	})
	if want := []string{"nvcc 13.3 → 13.4: candle-kernels, cudarc", "arch sm_80 → sm_90: candle-kernels", "CUDA headers 13.3 → 13.4: candle-kernels"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestDecodeRefuses(t *testing.T) {
	good, err := stale.Record{Entries: []stale.Entry{built(kernels, 5, "nvcc=13.3")}}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct{ story, data, why string }{
		{"an empty file, after a crash", "", "it is empty"},
		{"blocks of zeros, after a power cut", "\x00\x00\x00\x00", "invalid character"},
		{"half of a record", string(good[:len(good)/2]), "unexpected end"},
		{"a record from the future", `{"schema":3,"entries":{"by":"key"}}`, "schema 3, this gpubuild knows 2"},
		{"a record from the past, in other words", `{"schema":1,"entries":[]}`, "schema 1, this gpubuild knows 2"},
		{"no schema", `{"entries":[]}`, "names no schema"},
		{"two records", string(good) + string(good), "after top-level value"},
		{"an unknown field", `{"schema":2,"entries":[],"x":1}`, "unknown field"},
		{"an entry without a package", `{"schema":2,"entries":[{"pkg_id":"p"}]}`, "entry 1 names no package"},
		{"an input twice", `{"schema":2,"entries":[{"pkg_id":"p","package":"p","inputs":[{"name":"a"},{"name":"a"}]}]}`, "twice"},
		{"another kind of JSON", `[1,2]`, "cannot unmarshal"},
	}
	for _, tt := range tests {
		t.Run(tt.story, func(t *testing.T) {
			_, err := stale.Decode([]byte(tt.data))
			var unreadable *stale.UnreadableError
			if !errors.As(err, &unreadable) || !strings.Contains(err.Error(), tt.why) || unreadable.Hint() == "" {
				t.Errorf("got %v, want an UnreadableError with %q", err, tt.why)
			}
		})
	}
}

func FuzzDecode(f *testing.F) {
	good, _ := stale.Record{Entries: []stale.Entry{built(kernels, 5, "nvcc=13.3#ab"), built(cudarc, 0, "CUDA_HOME=/caf\xe9")}}.Encode()
	f.Add(good)
	f.Add(good[:len(good)-9])
	f.Add([]byte(`{"schema":2,"entries":null}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := stale.Decode(data)
		if err != nil {
			return
		}
		again, err := r.Encode()
		if err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		}
		r2, err := stale.Decode(again)
		if err != nil || len(r.Entries) != len(r2.Entries) || len(r.Entries) > 0 && !reflect.DeepEqual(r.Merge(nil), r2.Merge(nil)) {
			t.Fatalf("%v\n%+v\n%+v", err, r, r2)
		}
		third, _ := r2.Encode()
		if !bytes.Equal(again, third) {
			t.Fatalf("%s\n%s", again, third)
		}
	})
}

// TestBelies: a record is only dangerous where it is believed of a unit and tells other inputs than that was built with.
func TestBelies(t *testing.T) {
	key := stale.Key{PkgID: "p", Features: "cuda", OutDir: "/t/out"}
	entry := func(k stale.Key, nvcc string, ran int64) stale.Entry {
		return stale.Entry{Key: k, Package: "p", Inputs: []stale.Input{{Name: "nvcc", Value: nvcc + " /x/nvcc", Hash: nvcc}}, ScriptRan: ran}
	}
	elsewhere := key
	elsewhere.OutDir = "/t/other"
	for _, tt := range []struct {
		story    string
		old, now stale.Entry
		want     bool
	}{
		{"the script ran since: void by itself", entry(key, "13.3", 1), entry(key, "13.4", 2), false},
		{"a clock that went back: void by itself", entry(key, "13.3", 2), entry(key, "13.4", 1), false},
		{"one time for both", entry(key, "13.3", 1), entry(key, "13.4", 1), true},
		{"no time for either", entry(key, "13.3", 0), entry(key, "13.4", 0), true},
		{"the same inputs", entry(key, "13.4", 1), entry(key, "13.4", 1), false},
		{"another unit", entry(elsewhere, "13.3", 1), entry(key, "13.4", 1), false},
	} {
		r := stale.Record{Schema: stale.Schema, Entries: []stale.Entry{entry(elsewhere, "13.4", 7), tt.old}}
		if got := r.Belies([]stale.Entry{tt.now}); got != tt.want {
			t.Errorf("%s: %v", tt.story, got)
		}
		// What Belies says is what Compare would do with it.
		fresh := stale.Compare(r, []stale.Unit{stale.Unit(entry(key, tt.old.Inputs[0].Hash, tt.now.ScriptRan))})
		if lies := len(fresh.Unknown)+len(fresh.Reasons) == 0 && tt.old.Inputs[0].Hash != tt.now.Inputs[0].Hash; lies != tt.want {
			t.Errorf("%s: a build for the old inputs is fresh: %v", tt.story, lies)
		}
		if r.Without([]stale.Key{tt.old.Key}).Belies([]stale.Entry{tt.now}) {
			t.Errorf("%s: still there without it", tt.story)
		}
	}
}
