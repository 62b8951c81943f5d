package verify

import (
	"fmt"
	"strings"
	"testing"

	"gpubuild/buildenv"
	"gpubuild/buildenv/hosttest"
	"gpubuild/gpu/probe"
)

const ours = probe.DirVariable + "=/run\x00" + probe.InjectionVariable + "=/p.so\x00"

// TestAnEnvironmentThatIsNotThereYet: in the middle of an exec a process has no environment, or a part of it; the next look knows better.
func TestAnEnvironmentThatIsNotThereYet(t *testing.T) {
	t.Parallel()
	machine := func(state, environ string) buildenv.Host {
		h, err := hosttest.Parse([]byte("os: linux\n-- /proc/7/stat --\n7 (app) " + state + " 6 7 7 0 -1 4194304 100 0 0 0 1 1 0 0 20 0 1 0 99 1000 100\n" +
			"-- /proc/7/exe --\n-- /proc/7/environ +chomp --\n" + environ + "\n"))
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	for _, tt := range []struct {
		story string
		looks []string
		want  bool
	}{
		{"it has ours", []string{ours}, false},
		{"none for a moment", []string{"", ours}, false},
		{"none for two moments that are apart", []string{"", ours, ""}, false},
		{"none at all", []string{"", ""}, true},
		{"only its beginning was read", []string{"PATH=/bin\x00", ours}, false},
		{"another's", []string{"X" + ours[1:]}, true},
		{"another run's", []string{strings.Replace(ours, "/run", "/ran", 1)}, true},
		{"only the directory", []string{probe.DirVariable + "=/run\x00"}, true},
		{"emptied", []string{probe.DirVariable + "=/run\x00" + probe.CUDA.Injection() + "=\x00"}, true},
		{"lost later", []string{ours, "PATH=/bin\x00"}, true},
	} {
		s := newSampler(machine("S", ours), probe.CUDA, "/run")
		for _, environ := range tt.looks {
			s.h = machine("S", environ)
			st, _ := s.stat(7)
			s.one(7, st, true, true)
		}
		if got := s.seen[processID{7, 99}]; got == nil || got.NoInjection != tt.want {
			t.Errorf("%s: %+v", tt.story, got)
		}
	}
	s := newSampler(machine("Z", ""), probe.CUDA, "/run")
	if st, ok := s.stat(7); !ok || !st.Ended || st.Started != 99 || st.Parent != 6 {
		t.Errorf("%+v", st)
	} else if s.one(7, st, false, true); len(s.seen) > 0 {
		t.Error("one that has ended is looked at: " + fmt.Sprint(s.seen))
	}
}

// TestReadWatch: only what the watcher says of the program itself counts, whose number the first line has.
func TestReadWatch(t *testing.T) {
	t.Parallel()
	const launched = `{"event":"launched","pid":7,"started":99}` + "\n"
	for _, tt := range []struct {
		story, lines string
		pid, errno   int
		complete     bool
	}{
		{"nothing yet", "", 0, 0, false},
		{"it runs", launched, 7, 0, false},
		{"it ended", launched + `{"event":"ended","pid":7,"known":true}`, 7, 0, true},
		{"another process ended", launched + `{"event":"ended","pid":8,"known":true}`, 7, 0, false},
		{"it could not be started", launched + `{"event":"exec-failed","pid":7,"errno":13}`, 7, 13, false},
		{"another process could not be started", launched + `{"event":"exec-failed","pid":8,"errno":13}`, 7, 0, false},
		{"a second one says that it is the program", launched + `{"event":"launched","pid":8}` + "\n" + `{"event":"exec-failed","pid":8,"errno":13}`, 7, 0, false},
		{"a line that is none", "{\n" + launched, 7, 0, false},
	} {
		w, errno, err := readWatch(hosttest.Memory(map[string]string{"/watch": tt.lines}), "/watch")
		if err != nil || w.Pid != tt.pid || errno != tt.errno || w.Complete != tt.complete {
			t.Errorf("%s: %+v, %d, %v", tt.story, w, errno, err)
		}
	}
}
