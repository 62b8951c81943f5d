package source_test

import (
	"testing"

	"gpubuild/buildenv/hosttest"
	"gpubuild/features/source"
)

func TestLibtorchOf(t *testing.T) {
	t.Parallel()
	const system = "-- @empty --\n/usr/lib/libtorch.so\n"
	for _, tt := range []struct{ story, env, files, want string }{
		{"nothing: downloaded", "", "", "no libtorch is named: set LIBTORCH or LIBTORCH_USE_PYTORCH=1, or turn on tch/download-libtorch"},
		{"LIBTORCH", "LIBTORCH=/t\n", system, "LIBTORCH: /t/lib holds no libtorch"},
		{"the system's", "", system, "the system's libtorch: /usr/lib holds a libtorch without CUDA"},
		{"an empty LIBTORCH is set: the system's is not looked for", "LIBTORCH=\n", system, "LIBTORCH: lib holds no libtorch"},
		{"libraries apart from the headers", "LIBTORCH=/t\nLIBTORCH_LIB=/u\n", "", "LIBTORCH_LIB: /u/lib holds no libtorch"},
		{"only the libraries are named", "LIBTORCH_LIB=/u\n", "", "LIBTORCH_LIB: /u/lib holds no libtorch"},
		{"Python, even where the variable is empty", "LIBTORCH_USE_PYTORCH=\nLIBTORCH=/t\n", system,
			"LIBTORCH_USE_PYTORCH: the PyTorch that python3 imports decides"},
	} {
		t.Run(tt.story, func(t *testing.T) {
			h := hosttest.Must(hosttest.Parse([]byte("os: linux\nhome: /home/u\ncwd: /c\n-- @env --\nPATH=/usr/bin\n" + tt.env + tt.files)))(t)
			if got := source.NewReader(h, "").LibtorchOf(nil); got.Says != tt.want {
				t.Errorf("got %q, want %q", got.Says, tt.want)
			}
		})
	}
}
