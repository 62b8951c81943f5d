package toolchain_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"gpubuild/buildenv"
	"gpubuild/buildenv/hosttest"
	"gpubuild/toolchain"
)

// TestLongPath holds that a PATH which cmd.exe would not hand on becomes one that it does: what does not exist goes first, then what stands
// last, and never Windows' own directories, the chosen compiler, or where the tools of a build lie.
func TestLongPath(t *testing.T) {
	h := hosttest.Load(t, "windows-usual")
	usual := h.Env.Get("PATH")
	set := func(h buildenv.Host, more string) (buildenv.Env, string) {
		t.Helper()
		h.Env = h.Env.Set("PATH", more)
		s, err := toolchain.Choose(windows(h), kernels, toolchain.Wish{})
		if err != nil {
			t.Fatal(err)
		}
		told := ""
		d := toolchain.Environment(h, s, kernels)
		for _, c := range d.Changes {
			if c.Name == "PATH" && c.Op == buildenv.Set {
				told = c.Reason
			}
		}
		if (toolchain.LeftOut(d) != "") != strings.Contains(told, `C:\Programs`) {
			t.Errorf("the user is told %q", toolchain.LeftOut(d))
		}
		env := h.Apply(h.Env, d)
		h.Env = env
		if cl, err := h.LookPath("cl"); err != nil || cl != s.MSVC.Toolset.CL {
			t.Errorf("nvcc would take %s, %v", cl, err)
		}
		if again := toolchain.Environment(h, s, kernels); len(again.Changes) > 0 {
			t.Errorf("the second time it would still do %s", changed(again))
		}
		return env, told
	}
	if _, told := set(h, usual); told != "" {
		t.Errorf("a PATH of %d characters: %s", len(usual), told)
	}

	var gone strings.Builder
	for n := 0; gone.Len() < 64<<10; n++ {
		fmt.Fprintf(&gone, `C:\gone %d\bin;`, n)
	}
	env, told := set(h, gone.String()+usual)
	if !strings.Contains(told, "directories that do not exist") || strings.Contains(told, "from its end") ||
		strings.Contains(env.Get("PATH"), "gone") || len(env.Get("PATH")) > 7000 {
		t.Errorf("64 KB of what is not there: %d characters, %s", len(env.Get("PATH")), told)
	}

	// 300 directories that are there, with cargo in the last but one and Windows behind everything
	var dirs, list strings.Builder
	for n := range 300 {
		fmt.Fprintf(&dirs, "C:\\Programs\\number %d of many with a long name\\bin\\tool%d.exe\n", n, n)
		fmt.Fprintf(&list, `C:\Programs\number %d of many with a long name\bin;`, n)
	}
	text, err := os.ReadFile("../testdata/hosts/windows-usual.txtar")
	if err != nil {
		t.Fatal(err)
	}
	many, err := hosttest.Parse([]byte(strings.Replace(string(text), "-- @empty --\n",
		"-- @empty --\nC:\\Users\\u\\.cargo\\bin\\cargo.exe\n"+dirs.String(), 1)))
	if err != nil {
		t.Fatal(err)
	}
	env, told = set(many, list.String()+`C:\Users\u\.cargo\bin;C:\Programs\number 299 of many with a long `+
		`name\bin;C:\Windows\system32;C:\Windows`)
	got := env.Get("PATH")
	if len(got) > 7000 || len(got) < 6800 || !strings.Contains(got, `C:\Users\u\.cargo\bin`) ||
		!strings.HasSuffix(got, `C:\Windows\system32;C:\Windows`) || !strings.Contains(got, "number 0 of") ||
		strings.Contains(got, "number 299 of") {
		t.Errorf("%d characters: %s", len(got), got)
	}
	if strings.Contains(told, "do not exist") || !strings.Contains(told, "from its end") ||
		!strings.Contains(told, `C:\Programs\number 299 of many with a long name\bin`) {
		t.Errorf("told: %s", told)
	}
}

// TestComSpec holds that nvcc finds cmd.exe where neither ComSpec nor PATH leads to it, and that nothing is set where one does.
func TestComSpec(t *testing.T) {
	for _, tt := range []struct{ path, comspec, want string }{
		{`C:\mine`, "", `C:\Windows\System32\cmd.exe`}, {`C:\Windows\system32`, "", ""}, {`C:\mine`, `D:\cmd.exe`, ""},
	} {
		h := hosttest.Load(t, "windows-usual")
		h.Env = h.Env.Set("PATH", tt.path).Set("ComSpec", tt.comspec).Unset("SystemRoot")
		s, err := toolchain.Choose(windows(h), kernels, toolchain.Wish{})
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, c := range toolchain.Environment(h, s, kernels).Changes {
			if c.Name == "ComSpec" {
				got = c.Value
			}
		}
		if got != tt.want {
			t.Errorf("%+v: got %s", tt, got)
		}
	}
}
