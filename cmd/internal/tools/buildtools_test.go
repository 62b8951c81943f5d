package tools

import (
	"cmp"
	"strings"
	"testing"

	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/hosttest"
	"gpubuild/cmd/internal/session"
	"gpubuild/features"
	"gpubuild/toolchain/cargo"
)

// What a build script cannot do without is missed before cargo compiles anything, and nothing is missed that it would find.
func TestAbsentTools(t *testing.T) {
	t.Parallel()
	const script = "fn main() { cmake(\"whisper.cpp\") }\n"
	for _, tt := range []struct {
		story, host, built, want, fix string
	}{
		{"both are there", "-- @empty --\n/usr/bin/cmake +x\n/usr/lib/llvm-14/lib/libclang.so.1\n", "", "", ""},
		{"neither", "-- @empty --\n/usr/bin/gcc +x\n", "",
			"there is no CMake, which whisper-rs-sys 0.13.0 is built with, and no libclang, which whisper-rs-sys 0.13.0 is built with",
			"apt install cmake libclang-dev"},
		{"neither, on Fedora", "-- @empty --\n/usr/bin/gcc +x\n/usr/bin/dnf +x\n", "",
			"there is no CMake, which whisper-rs-sys 0.13.0 is built with, and no libclang, which whisper-rs-sys 0.13.0 is built with",
			"dnf install cmake clang-devel"},
		{"neither, on Arch", "-- @empty --\n/usr/bin/gcc +x\n/usr/bin/pacman +x\n", "",
			"there is no CMake, which whisper-rs-sys 0.13.0 is built with, and no libclang, which whisper-rs-sys 0.13.0 is built with",
			"pacman -S cmake clang"},
		{"the library of C++ is another one", "-- @empty --\n/usr/bin/cmake +x\n/usr/lib/llvm-14/lib/libclang-cpp.so.14\n", "",
			"there is no libclang, which whisper-rs-sys 0.13.0 is built with", "apt install libclang-dev"},
		{"a static library alone", "-- @empty --\n/usr/bin/cmake +x\n/usr/lib/llvm-14/lib/libclang.a\n", "",
			"there is no libclang, which whisper-rs-sys 0.13.0 is built with", "apt install libclang-dev"},
		{"a version in the name", "-- @empty --\n/usr/bin/cmake +x\n/usr/lib/x86_64-linux-gnu/libclang-14.so.1\n", "", "", ""},
		{"its directory in a variable", "-- @empty --\n/usr/bin/cmake +x\n-- @env --\nLIBCLANG_PATH=/opt/x\nPATH=/usr/bin\n", "", "", ""},
		{"llvm-config's prefix", "-- @empty --\n/usr/bin/cmake +x\n/opt/llvm/bin/llvm-config +x\n/opt/llvm/lib/libclang.so.18\n" +
			"-- @links --\n/usr/bin/llvm-config -> /opt/llvm/bin/llvm-config\n", "", "", ""},
		{"an LLVM without it", "-- @empty --\n/usr/bin/cmake +x\n/usr/bin/llvm-config +x\n", "",
			"there is no libclang, which whisper-rs-sys 0.13.0 is built with", "apt install libclang-dev"},
		{"the loader's path", "-- @empty --\n/usr/bin/cmake +x\n/x/libclang.so\n-- @env --\nLD_LIBRARY_PATH=/x\nPATH=/usr/bin\n", "", "", ""},
		{"it was built here before", "-- @empty --\n/usr/bin/gcc +x\n", "whisper-rs-sys", "", ""},
		{"a submodule that is not checked out", "-- @dirs --\n/c/sys/whisper.cpp\n-- /c/.git --\ngitdir: x\n-- /c/.gitmodules --\n" +
			"[submodule \"w\"]\n\tpath = sys/whisper.cpp\n", "",
			"/c/sys/whisper.cpp is empty: it is a git submodule, and whisper-rs-sys 0.13.0 compiles what is in it",
			"git submodule update --init --recursive"},
		{"not even its directory is there", "-- /c/.git --\ngitdir: x\n-- /c/.gitmodules --\n[submodule \"w\"]\n\tpath = sys/whisper.cpp\n", "",
			"/c/sys/whisper.cpp is empty: it is a git submodule, and whisper-rs-sys 0.13.0 compiles what is in it",
			"git submodule update --init --recursive"},
		{"a published package, which is no clone", "-- @empty --\n/usr/bin/cmake +x\n/usr/lib/libclang.so\n" +
			"-- /c/.gitmodules --\npath = sys/whisper.cpp\n", "", "", ""},
		{"a script that checks it out", "-- @empty --\n/usr/bin/cmake +x\n/usr/lib/libclang.so\n-- /c/.git --\ngitdir: x\n" +
			"-- /c/.gitmodules --\npath = sys/whisper.cpp\n-- /c/sys/build.rs --\ngit(\"submodule update\", \"whisper.cpp\")\n",
			"", "", ""},
		{"submodules that the script does not name or that hold something", "-- @empty --\n/usr/bin/cmake +x\n/usr/lib/libclang.so\n" +
			"/c/sys/whisper.cpp/CMakeLists.txt\n-- /c/.git --\ngitdir: x\n-- /c/.gitmodules --\n" +
			"path = sys/whisper.cpp\npath = sys/models\npath = docs/whisper.cpp\n", "", "", ""},
	} {
		t.Run(tt.story, func(t *testing.T) {
			t.Parallel()
			text := "os: linux\nhome: /home/u\ncwd: /c\n"
			if !strings.Contains(tt.host, "@env") {
				text += "-- @env --\nPATH=/usr/bin\n"
			}
			if !strings.Contains(tt.host, "build.rs") {
				text += "-- /c/sys/build.rs --\n" + script
			}
			h, err := hosttest.Parse([]byte(text + tt.host))
			if err != nil {
				t.Fatal(err)
			}
			reach := &features.Reach{Units: []features.ScriptUnit{{Name: "whisper-rs-sys", Version: "0.13.0", Dir: "/c/sys"}}}
			for _, need := range []string{"CMake", "nvcc", "libclang"} {
				reach.Needs.Because = append(reach.Needs.Because, features.NeedReason{Need: need, Crate: "whisper-rs-sys 0.13.0"})
			}
			err = AbsentTools(h, session.Graph{}, reach, func(crate string) bool { return crate == tt.built })
			switch {
			case tt.want == "" && err != nil:
				t.Error(err)
			case tt.want != "" && (err == nil || err.Error() != tt.want || exit.Hint(err) != tt.fix || exit.Of(err) != exit.Missing):
				t.Errorf("got %v with %q, want %s with %q", err, exit.Hint(err), tt.want, tt.fix)
			}
		})
	}
}

// TestAbsentLibtorch: torch-sys needs a libtorch, unless it downloads one or is only type-checked.
func TestAbsentLibtorch(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		story, host, table string
		features           []string
		want               bool
	}{
		{"nothing names one", "", "", nil, true},
		{"a variable", "-- @env --\nLIBTORCH=/t\n", "", nil, false},
		{"PyTorch's", "-- @env --\nLIBTORCH_USE_PYTORCH=1\n", "", nil, false},
		{"an [env] table", "", "LIBTORCH", nil, false},
		{"the system's", "-- @empty --\n/usr/lib/libtorch.so\n", "", nil, false},
		{"it is downloaded", "", "", []string{"download-libtorch"}, false},
		{"only for a type check", "", "", []string{"doc-only"}, false},
	} {
		h, err := hosttest.Parse([]byte("os: linux\nhome: /home/u\ncwd: /c\n" + tt.host))
		if err != nil {
			t.Fatal(err)
		}
		reach := &features.Reach{Units: []features.ScriptUnit{{Name: "torch-sys", Features: tt.features}}}
		for _, crate := range []string{"tch 0.26.0", "torch-sys 0.26.0"} {
			reach.Needs.Because = append(reach.Needs.Because, features.NeedReason{Need: "libtorch", Crate: crate})
		}
		h = scriptHost(h, []cargo.Given{{Name: cmp.Or(tt.table, "OTHER"), Value: "/t"}})
		err = AbsentTools(h, session.Graph{}, reach, func(string) bool { return false })
		if (err != nil) != tt.want || err != nil && err.Error() != "there is no libtorch, which torch-sys 0.26.0 is built with" {
			t.Errorf("%s: %v", tt.story, err)
		}
	}
}
