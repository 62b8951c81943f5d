package verify

import (
	"testing"

	"gpubuild/buildenv"
	"gpubuild/buildenv/hosttest"
	"gpubuild/gpu/probe"
)

// TestAnEnvironmentThatIsNotThereYet: in the middle of an exec a process has memory and no environment; one without an environment keeps
// having none.
func TestAnEnvironmentThatIsNotThereYet(t *testing.T) {
	process := func(environ string) buildenv.Host {
		h, err := hosttest.Parse([]byte("os: linux\n" +
			"-- /proc/7/stat --\n7 (app) S 6 7 7 0 -1 4194304 100 0 0 0 1 1 0 0 20 0 1 0 99 1000 100 1 1 1 1 1 1 1 1 1 1 1 1 1 1 17 0 0 0 0 0 0\n" +
			"-- /proc/7/maps --\n1000-2000 r-xp 00000000 00:00 1 /x/app\n" +
			"-- /proc/7/environ +chomp --\n" + environ + "\n"))
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	ours := probe.DirVariable + "=/run\x00" + probe.InjectionVariable + "=/p.so\x00"
	tests := []struct {
		story string
		looks []string
		want  bool
	}{
		{"it has ours", []string{ours}, false},
		{"none for a moment", []string{"", ours, ours}, false},
		{"none for two moments that are apart", []string{"", ours, "", ours}, false},
		{"none, and seen once only", []string{""}, false},
		{"none at all", []string{"", ""}, true},
		{"another's", []string{"PATH=/bin\x00"}, true},
		{"another run's", []string{probe.DirVariable + "=/other\x00" + probe.InjectionVariable + "=/p.so\x00"}, true},
	}
	for _, tt := range tests {
		t.Run(tt.story, func(t *testing.T) {
			s := newSampler(process(ours), "/run")
			for _, environ := range tt.looks {
				s.h = process(environ)
				st, ok := s.stat(7)
				if !ok {
					t.Fatal("no stat")
				}
				s.one(7, st, true, true)
			}
			if got := s.seen[processID{7, 99}].NoInjection; got != tt.want {
				t.Errorf("%v", got)
			}
		})
	}
}
