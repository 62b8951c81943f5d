package cargorun

import (
	"fmt"
	"strings"
	"testing"

	"gpubuild/toolchain/cargo"
)

func artifact(name string, fresh bool) string {
	return fmt.Sprintf(
		`{"reason":"compiler-artifact","package_id":"%s","target":{"kind":["lib"],"name":"%[1]s"},"filenames":["/t/%[1]s"],"fresh":%v}`,
		name,
		fresh,
	)
}

const (
	scriptOld   = `{"reason":"build-script-executed","package_id":"sys","cfgs":["old"],"out_dir":"/t/o"}`
	scriptNew   = `{"reason":"build-script-executed","package_id":"sys","cfgs":["new"],"out_dir":"/t/o"}`
	warning     = `{"reason":"compiler-message","package_id":"b","message":{"rendered":"warning"}}`
	finished    = `{"reason":"build-finished","success":true}`
	notFinished = `{"reason":"build-finished","success":false}`
)

// TestStream: whatever cargo says in one run or two, a consumer reads one build.
func TestStream(t *testing.T) {
	runs := func(runs ...[]string) [][]string { return runs }
	say := func(lines ...string) []string { return lines }
	for _, tt := range []struct {
		story string
		runs  [][]string
		good  bool
		want  []string
	}{
		{"one run: what was compiled at once, the rest before the end",
			runs(say(artifact("a", true), scriptOld, warning, artifact("sys", false), finished)), true,
			say(warning, artifact("sys", false), artifact("a", true), scriptOld, finished)},
		{"two runs: what was cleaned in between is reported as it is now",
			runs(say(artifact("a", true), scriptOld, artifact("sys", true), warning, artifact("b", false), finished),
				say(artifact("a", true), scriptNew, artifact("sys", false), warning, artifact("b", false), finished)), true,
			say(warning, artifact("b", false), artifact("sys", false), artifact("a", true), scriptNew, finished)},
		{"a diagnostic that comes twice in one run is two",
			runs(say(warning, warning, finished)), true, say(warning, warning, finished)},
		{"the second fails: what it did not find any more is not reported",
			runs(say(artifact("a", true), artifact("sys", true), finished), say(artifact("a", true), notFinished)), false,
			say(artifact("a", true), notFinished)},
		{"cargo calls it good, and it is not what was asked for",
			runs(say(artifact("a", true), finished)), false, say(artifact("a", true), notFinished)},
		{"cargo was killed", runs(say(artifact("a", true), artifact("b", false))), false, say(artifact("b", false), artifact("a", true))},
	} {
		var got []string
		s := NewStream(func(line []byte) { got = append(got, string(line)) })
		for _, lines := range tt.runs {
			s.Again()
			for _, l := range lines {
				m, ok := cargo.ParseMessage([]byte(l))
				if !ok {
					t.Fatal(l)
				}
				s.Message(m)
			}
		}
		s.End(tt.good)
		if strings.Join(got, "\n") != strings.Join(tt.want, "\n") {
			t.Errorf("%s:\n%s\nwant:\n%s", tt.story, strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
		}
	}
}

// TestStartedProgram: the cargo that starts a program reports nothing twice, and the program's own output comes unchanged, messages of
// cargo's among them.
func TestStartedProgram(t *testing.T) {
	theirs := "{\"half of a line\"" // that no end follows
	for _, size := range []int{1, 7, 1 << 20} {
		var out strings.Builder
		s := NewStream(func(line []byte) { out.Write(append(line, '\n')) })
		for _, l := range []string{artifact("a", true), artifact("b", false), warning, finished} {
			m, _ := cargo.ParseMessage([]byte(l))
			s.Message(m)
		}
		s.End(true)
		before := out.Len()
		w := s.Start(&out)
		text := strings.Join(
			[]string{artifact("a", true), warning, artifact("b", true), finished, "hello", finished, artifact("a", true), theirs},
			"\n",
		)
		for len(text) > 0 {
			n := min(size, len(text))
			if _, err := w.Write([]byte(text[:n])); err != nil {
				t.Fatal(err)
			}
			text = text[n:]
		}
		if got, want := out.String()[before:], strings.Join([]string{"hello", finished, artifact("a", true), theirs}, "\n"); got != want {
			t.Errorf("%d bytes at a time:\n%s\nwant:\n%s", size, got, want)
		}
	}
	var got []string
	s := NewStream(func(line []byte) { got = append(got, string(line)) })
	w := s.Start(&strings.Builder{})
	if _, err := w.Write([]byte(warning + "\n" + notFinished + "\n")); err != nil || strings.Join(got, " ") != warning+" "+notFinished {
		t.Errorf("a cargo that could not start it: %v, %s", err, got)
	}
}
