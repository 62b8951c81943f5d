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

// statOf is a line of /proc/PID/stat of a process that began at 99.
func statOf(pid int, i image) string {
	f := strings.Fields("S 6 7 7 0 -1 4194304 100 0 0 0 1 1 0 0 20 0 1 0 99 1000 100 1 1 CODE STACK 1 1 1 1 1 1 1 1 1 17 0 0 0 0 0 0 1 1 1 1 1 ENVSTART ENVEND 0")
	line := strings.NewReplacer("CODE", fmt.Sprint(i.code), "STACK", fmt.Sprint(i.stack), "ENVSTART", fmt.Sprint(i.envStart), "ENVEND", fmt.Sprint(i.envEnd)).Replace(strings.Join(f, " "))
	return fmt.Sprintf("%d (app) %s", pid, line)
}

// TestAnEnvironmentThatIsNotThereYet: in the middle of an exec a process has memory and no environment, or less of it than was read before; one
// that began without an environment keeps having none.
func TestAnEnvironmentThatIsNotThereYet(t *testing.T) {
	size := uint64(len(ours))
	whole, other := image{10, 20, 100, 100 + size}, image{11, 21, 200, 200 + size}
	none, exec := image{10, 20, 100, 100}, image{0, 20, 0, 0}
	passing := image{0, 20, 100, 100} // the environment is about to be counted
	machine := func(tells bool, after image, environ string) buildenv.Host {
		self := image{}
		if tells {
			self = whole
		}
		h, err := hosttest.Parse([]byte("os: linux\n" +
			"-- /proc/self/stat --\n" + statOf(1, self) + "\n" +
			"-- /proc/7/stat --\n" + statOf(7, after) + "\n" +
			"-- /proc/7/maps --\n1000-2000 r-xp 00000000 00:00 1 /x/app\n" +
			"-- /proc/7/environ +chomp --\n" + environ + "\n"))
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	type look struct {
		before  image
		environ string
		after   image
	}
	tests := []struct {
		story string
		looks []look
		want  bool
	}{
		{"it has ours", []look{{whole, ours, whole}}, false},
		{"in the middle of an exec, however often", []look{{exec, "", exec}, {exec, "", exec}, {exec, "", exec}, {whole, ours, whole}}, false},
		{"its environment is about to be counted", []look{{passing, "", passing}, {passing, "", passing}}, false},
		{"an exec between the looks", []look{{whole, "", other}, {other, "", whole}, {whole, ours, whole}}, false},
		{"an exec of the same image while it is read", []look{{whole, "", whole}, {whole, ours, whole}}, false},
		{"only its beginning was read, for an exec came", []look{{whole, "PATH=/bin\x00", other}, {other, ours, other}}, false},
		{"only its beginning was read, for its end came", []look{{whole, "PATH=/bin\x00", image{}}}, false},
		{"without memory, about to end", []look{{image{}, "", image{}}, {image{}, "", image{}}}, false},
		{"none at all", []look{{none, "", none}}, true},
		{"none at all, after an exec", []look{{whole, ours, whole}, {exec, "", exec}, {none, "", none}}, true},
		{"another's", []look{{whole, "X" + ours[1:], whole}}, true},
		{"another run's", []look{{whole, strings.Replace(ours, "/run", "/ran", 1), whole}}, true},
		{"gave the memory of it away", []look{{whole, "", whole}, {whole, "", whole}}, true},
		{"shows less than it has", []look{{whole, "PATH=/bin\x00", whole}, {whole, "PATH=/bin\x00", whole}}, true},
	}
	for _, tt := range tests {
		t.Run(tt.story, func(t *testing.T) {
			s := newSampler(machine(true, whole, ours), "/run")
			for _, l := range tt.looks {
				s.h = machine(true, l.before, "")
				before, ok := s.stat(7)
				if !ok {
					t.Fatal("no stat")
				}
				s.h = machine(true, l.after, l.environ)
				s.one(7, before, true, len(s.partly) == 0) // what could not be read whole is looked at again by itself
			}
			if got := s.seen[processID{7, 99}].NoInjection; got != tt.want {
				t.Errorf("%v", got)
			}
		})
	}
	// A kernel that does not tell where an environment lies: twice nothing is none.
	for _, tt := range []struct {
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
	} {
		t.Run("not told: "+tt.story, func(t *testing.T) {
			s := newSampler(machine(false, image{}, ours), "/run")
			for _, environ := range tt.looks {
				s.h = machine(false, image{}, environ)
				before, ok := s.stat(7)
				if !ok {
					t.Fatal("no stat")
				}
				s.one(7, before, true, true)
			}
			if got := s.seen[processID{7, 99}].NoInjection; got != tt.want {
				t.Errorf("%v", got)
			}
		})
	}
}
