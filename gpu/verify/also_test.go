package verify

import (
	"strings"
	"testing"

	"gpubuild/buildenv/hosttest"
	"gpubuild/gpu/probe"
)

// TestAlso: a proof is also of each file that launched what counts, and of a script; a process that launched nothing adds none.
func TestAlso(t *testing.T) {
	t.Parallel()
	process := func(exe string, self, launched bool, script string) Process {
		p := Process{Process: probe.Process{Identity: probe.Identity{Exe: exe}}, Self: self, Script: script}
		if launched {
			p.Kernels = []probe.Kernel{{Name: "gemm", Count: 1}}
		}
		return p
	}
	forked := process("/fork", false, true, "")
	forked.Forked = true
	for story, tt := range map[string]struct {
		p      Process
		child  string
		script string
		want   string
	}{
		"the program":                        {process("/app", true, true, ""), "", "", ""},
		"a script of the program's own":      {process("/app", true, true, "/x.py"), "", "", "/x.py"},
		"the interpreter of a script":        {process("/python", true, true, "/app"), "", "", "/python"},
		"a child that counts":                {process("/kid", false, true, "/y.py"), "/kid", "", "/kid /y.py"},
		"a child that does not count":        {process("/kid", false, true, "/y.py"), "/other", "", ""},
		"a child that launched nothing":      {process("/kid", false, false, ""), "/kid", "", ""},
		"a fork of the program":              {forked, "/fork", "", ""},
		"what it was started with":           {process("/app", true, true, ""), "", "/z.py", "/z.py"},
		"a script that is named in two ways": {process("/app", true, true, "/z.py"), "", "/z.py", "/z.py"},
	} {
		var got []string
		for _, a := range (Evidence{Binary: "/app", Processes: []Process{tt.p}}).UsedFiles(Rules{Child: tt.child}, tt.script) {
			got = append(got, a.Path)
		}
		hosttest.Equal(t, strings.Join(got, " "), tt.want, story)
	}
	both := Evidence{Binary: "/app", Processes: []Process{process("/idle", false, false, ""), process("/kid", false, true, "")}}
	if also := both.UsedFiles(Rules{Child: "/kid"}, ""); len(also) != 1 || also[0].Path != "/kid" {
		t.Errorf("after a child that launched nothing: %+v", also)
	}
}
