package libtorch_test

import (
	"testing"

	"gpubuild/buildenv/hosttest"
	"gpubuild/features/libtorch"
)

func TestFind(t *testing.T) {
	t.Parallel()
	const system = "-- @empty --\n/usr/lib/libtorch.so\n"
	for _, tt := range []struct {
		story, env, files string
		want              libtorch.Place
	}{
		{"nothing: downloaded", "", "", libtorch.Place{}},
		{"LIBTORCH", "LIBTORCH=/t\n", system, libtorch.Place{Root: "/t", Lib: "/t/lib", How: "LIBTORCH"}},
		{"the system's", "", system, libtorch.Place{Root: "/usr", Lib: "/usr/lib", How: "the system's libtorch"}},
		{"an empty LIBTORCH is set: the system's is not looked for", "LIBTORCH=\n", system, libtorch.Place{Lib: "lib", How: "LIBTORCH"}},
		{"libraries apart from the headers", "LIBTORCH=/t\nLIBTORCH_LIB=/u\n", "", libtorch.Place{Root: "/t", Lib: "/u/lib", How: "LIBTORCH_LIB"}},
		{"only the libraries are named", "LIBTORCH_LIB=/u\n", "", libtorch.Place{Lib: "/u/lib", How: "LIBTORCH_LIB"}},
		{"Python, even where the variable is empty", "LIBTORCH_USE_PYTORCH=\nLIBTORCH=/t\n", system,
			libtorch.Place{Python: true, How: "LIBTORCH_USE_PYTORCH"}},
	} {
		t.Run(tt.story, func(t *testing.T) {
			h, err := hosttest.Parse([]byte("os: linux\nhome: /home/u\ncwd: /c\n-- @env --\nPATH=/usr/bin\n" + tt.env + tt.files))
			if err != nil {
				t.Fatal(err)
			}
			if got := libtorch.Find(h, h.Env); got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}
