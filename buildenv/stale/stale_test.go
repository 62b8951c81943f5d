package stale_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"gpubuild/buildenv/hosttest"
	"gpubuild/buildenv/stale"
)

// parse takes inputs as "name=value" or "name=value#hash".
func parse(text string) []stale.Input {
	var out []stale.Input
	for _, s := range strings.Split(text, "; ") {
		n, v, _ := strings.Cut(s, "=")
		v, hash, _ := strings.Cut(v, "#")
		if n != "" {
			out = append(out, stale.Input{Name: n, Value: v, Hash: hash})
		}
	}
	return out
}

func TestDifferences(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ story, old, now, want string }{
		{"nothing changed", "nvcc=13.3 /a#1; arch=sm_90", "arch=sm_90; nvcc=13.3 /a#1", ""},
		{"another nvcc", "nvcc=13.3 /a#1", "nvcc=13.4 /b#2", "nvcc 13.3 → 13.4: k"},
		{"the same content elsewhere", "nvcc=13.3 /a#1", "nvcc=13.3 /b#1", ""},
		{"other content at the same path", "nvcc=13.3 /a#1", "nvcc=13.3 /a#2", "nvcc 13.3 /a → other content at the same path: k"},
		{"other content in another place", "CUDA headers//nv/mma.h=/a/mma.h#1", "CUDA headers//nv/mma.h=/b/mma.h#2", "nv/mma.h /a/mma.h → /b/mma.h: k"},
		{"a toolkit whose ptxas alone was replaced", "nvcc=13.3 /a#1; nvcc//ptxas=/p#1", "nvcc=13.3 /a#1; nvcc//ptxas=/p#2", "ptxas /p → other content at the same path: k"},
		{"another toolkit, all of which differs", "nvcc=13.3 /a#1; nvcc//ptxas=/a/p#1", "nvcc=13.4 /b#2; nvcc//ptxas=/b/p#2", "nvcc 13.3 → 13.4: k"},
		{"a header of the package", "source//inc/a.cuh=inc/a.cuh#1", "source//inc/a.cuh=inc/a.cuh#2", "inc/a.cuh changed: k"},
		{"one that came and one that went", "source//a.cuh=a.cuh#1", "source//b.cuh=b.cuh#1", "a.cuh is gone: k; b.cuh is new: k"},
		{"a variable that was set, empty", "", "FLAGS=", "FLAGS none → \"\": k"},
		{"one that is unset", "FLAGS=-G", "", "FLAGS -G → none: k"},
		{"one that is hidden", "NVCC_APPEND_FLAGS=-G", "NVCC_APPEND_FLAGS=-DX", "NVCC_APPEND_FLAGS sha256:040c533f6280 → sha256:8fccbecf5b8b: k"},
		{"one that is hidden and set", "", "NVCC_PREPEND_FLAGS=-G", "NVCC_PREPEND_FLAGS none → sha256:040c533f6280: k"},
	} {
		hosttest.Equal(t, strings.Join(stale.Lines(stale.Differences("k", parse(tt.old), parse(tt.now))), "; "), tt.want, tt.story)
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
	if want := []string{"nvcc 13.3 → 13.4: candle-kernels, cudarc", "arch sm_80 → sm_90: candle-kernels", "CUDA headers 13.3 → 13.4: candle-kernels"}; !slices.Equal(
		got,
		want,
	) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestManyLines: a person is shown the first changes, and how many there are.
func TestManyLines(t *testing.T) {
	var reasons []stale.Reason
	for i := range 1000 {
		reasons = append(reasons, stale.Reason{Package: "k", Input: fmt.Sprint(i), Old: "", New: fmt.Sprint(i)})
	}
	got := stale.Lines(reasons)
	if len(got) != 21 || got[19] != "19 is new: k" || got[20] != "and 980 more changes" || len(stale.Lines(reasons[:21])) != 21 {
		t.Errorf("%q", got)
	}
}

func whole(t testing.TB) []byte {
	return hosttest.Must(stale.Stamp{PkgID: "p", Features: []string{"cuda"}, Ran: 5, Inputs: parse("nvcc=13.3#ab"), Known: stale.Complete}.Encode())(t)
}

// TestDecodeRefuses: what is no whole stamp of this schema is none, so that the package is built again.
func TestDecodeRefuses(t *testing.T) {
	good := string(whole(t))
	for story, data := range map[string]string{
		"an empty file, after a crash": "", "blocks of zeros": "\x00\x00", "half": good[:len(good)/2], "two": good + good, "another kind of JSON": "[1,2]",
		"a later schema": strings.Replace(good, `"schema": 5`, `"schema": 6`, 1), "an earlier one": strings.Replace(good, `"schema": 5`, `"schema": 4`, 1), "no package": strings.Replace(good, `"p"`, `""`, 1), "nothing known": `{"schema":5,"pkg_id":"p"}`,
	} {
		if s, err := stale.Decode([]byte(data)); err == nil {
			t.Errorf("%s: %+v", story, s)
		}
	}
}

// TestNames: a name with bytes that JSON has not, and one that looks like such a one, are read as they were written.
func TestNames(t *testing.T) {
	for _, name := range []string{"caf\xe9.h", `"quoted".h`, "k.h", `a\b"`} {
		was := stale.Stamp{PkgID: "p", Known: stale.Partial, Read: map[string]string{name: "1"}, Files: []string{name},
			Inputs: []stale.Input{{Name: name, Value: name}}}
		is := hosttest.Must(stale.Decode(hosttest.Must(was.Encode())(t)))(t)
		if is.Read[name] != "1" || is.Files[0] != name || is.Inputs[0].Name != name {
			t.Errorf("%q: %+v", name, is)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(whole(f))
	f.Add(whole(f)[:9])
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := stale.Decode(data)
		if err != nil {
			return
		}
		again, err := s.Encode()
		if err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		}
		s2 := hosttest.Must(stale.Decode(again))(t)
		if third, _ := s2.Encode(); !bytes.Equal(again, third) {
			t.Fatalf("%s\n%s", again, third)
		}
	})
}
