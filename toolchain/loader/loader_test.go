package loader

import (
	"debug/elf"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// show writes what was found, one library a line.
func show(libs []Library) string {
	var b strings.Builder
	for _, l := range libs {
		fmt.Fprintf(&b, "%s => %s (%s)", l.Name, l.Path, l.Origin)
		if l.Kind != OK {
			fmt.Fprintf(&b, " %s: %s", l.Kind, l.Problem)
		}
		b.WriteString("\n")
	}
	return strings.TrimSpace(b.String())
}

func TestResolve(t *testing.T) {
	libc := image(lib{soname: "libc.so.6"})
	tests := []struct {
		story string
		files machine
		env   []string
		dirs  []string
		want  string
	}{
		{story: "a static program needs nothing", files: machine{"/app": image(lib{})}},
		{story: "the cache knows",
			files: machine{"/app": image(lib{needed: []string{"libc.so.6"}}), "/etc/ld.so.cache": ldCache("libc.so.6", "/lib/x/libc.so.6"),
				"/lib/x/libc.so.6": libc},
			want: "libc.so.6 => /lib/x/libc.so.6 (ld.so.cache)"},
		{story: "without a cache ld.so.conf tells",
			files: machine{"/app": image(lib{needed: []string{"libc.so.6"}}),
				"/etc/ld.so.conf":          []byte("include ld.so.conf.d/*.conf # all\n"),
				"/etc/ld.so.conf.d/a.conf": []byte("/opt/lib\n"), "/etc/ld.so.conf.d/b.txt": []byte("/never\n"),
				"/opt/lib/libc.so.6": libc},
			want: "libc.so.6 => /opt/lib/libc.so.6 (default directory)"},
		{story: "an include that includes itself ends",
			files: machine{"/app": image(lib{needed: []string{"libc.so.6"}}),
				"/etc/ld.so.conf": []byte("include /etc/ld.so.conf\n/opt/lib"), "/opt/lib/libc.so.6": libc},
			want: "libc.so.6 => /opt/lib/libc.so.6 (default directory)"},
		{story: "candle on a machine without GPU: the toolkit's libraries come from gpubuild, libcuda from nowhere",
			files: machine{"/app": image(lib{needed: []string{"libcuda.so.1", "libcublas.so.13", "libc.so.6"}}),
				"/tk/lib/libcublas.so.13":   image(lib{soname: "libcublas.so.13", needed: []string{"libcublasLt.so.13"}}),
				"/tk/lib/libcublasLt.so.13": image(lib{soname: "libcublasLt.so.13"}), "/lib64/libc.so.6": libc},
			dirs: []string{"/tk/lib"},
			want: "libcuda.so.1 =>  () missing: not found\n" +
				"libcublas.so.13 => /tk/lib/libcublas.so.13 (added by gpubuild) added: only in /tk/lib, which gpubuild adds to " +
				"LD_LIBRARY_PATH: a bare start lacks it\n" +
				"libc.so.6 => /lib64/libc.so.6 (default directory)\n" +
				"libcublasLt.so.13 => /tk/lib/libcublasLt.so.13 (added by gpubuild) added: only in /tk/lib, which gpubuild adds to " +
				"LD_LIBRARY_PATH: a bare start lacks it"},
		{story: "what is found bare as well is no problem",
			files: machine{"/app": image(lib{needed: []string{"libcublas.so.13"}}), "/tk/lib/libcublas.so.13": libc,
				"/usr/lib64/libcublas.so.13": libc},
			dirs: []string{"/tk/lib"},
			want: "libcublas.so.13 => /tk/lib/libcublas.so.13 (added by gpubuild)"},
		{story: "a stub directory on LD_LIBRARY_PATH", env: []string{"LD_LIBRARY_PATH=/tk/lib64/stubs"},
			files: machine{"/app": image(lib{needed: []string{"libcuda.so.1"}}), "/tk/lib64/stubs/libcuda.so.1": libc,
				"/lib64/libcuda.so.1": libc},
			want: "libcuda.so.1 => /tk/lib64/stubs/libcuda.so.1 (LD_LIBRARY_PATH) stub: a link stub (in /tk/lib64/stubs): every call of " +
				"it fails"},
		{story: "a link to a stub",
			files: machine{"/app": image(lib{needed: []string{"libcuda.so.1"}}),
				"/lib64/libcuda.so.1": []byte("-> /tk/lib/stubs/libcuda.so"), "/tk/lib/stubs/libcuda.so": libc},
			want: "libcuda.so.1 => /lib64/libcuda.so.1 (default directory) stub: a link stub (in /tk/lib/stubs): every call of it fails"},
		{story: "a copy of our own stub",
			files: machine{"/app": image(lib{needed: []string{"libcuda.so.1"}}),
				"/lib64/libcuda.so.1": image(lib{soname: "libcuda.so.1", symbols: []string{"cuInit", stubMark}})},
			want: "libcuda.so.1 => /lib64/libcuda.so.1 (default directory) stub: a link stub that gpubuild made: every call of it fails"},
		{story: "a real driver is no stub",
			files: machine{"/app": image(lib{needed: []string{"libcuda.so.1"}}),
				"/lib64/libcuda.so.1": image(lib{soname: "libcuda.so.1", symbols: []string{"cuInit"}})},
			want: "libcuda.so.1 => /lib64/libcuda.so.1 (default directory)"},
		{story: "RPATH before LD_LIBRARY_PATH before RUNPATH", env: []string{"LD_LIBRARY_PATH=/env"},
			files: machine{"/app": image(lib{needed: []string{"liba.so"}, rpath: "/r"}),
				"/r/liba.so":   image(lib{needed: []string{"libb.so"}, runpath: "/run"}),
				"/env/liba.so": libc, "/env/libb.so": libc, "/run/libb.so": libc, "/r/libb.so": libc},
			want: "liba.so => /r/liba.so (RPATH of /app)\nlibb.so => /env/libb.so (LD_LIBRARY_PATH)"},
		{story: "RPATH of the program holds for what its libraries need, RUNPATH does not",
			files: machine{"/app": image(lib{needed: []string{"liba.so"}, runpath: "/r"}),
				"/r/liba.so": image(lib{needed: []string{"libb.so"}}), "/r/libb.so": libc},
			want: "liba.so => /r/liba.so (RUNPATH of /app)\nlibb.so =>  () missing: not found"},
		{story: "RPATH is void where there is a RUNPATH",
			files: machine{"/app": image(lib{needed: []string{"liba.so"}, rpath: "/r", runpath: "/run"}), "/r/liba.so": libc},
			want:  "liba.so =>  () missing: not found"},
		{story: "$ORIGIN is the real directory of the program",
			files: machine{"/bin/app": []byte("-> /opt/x/bin/app"),
				"/opt/x/bin/app":     image(lib{needed: []string{"liba.so"}, runpath: "$ORIGIN/../lib:${ORIGIN}"}),
				"/opt/x/lib/liba.so": image(lib{needed: []string{"libb.so"}, runpath: "$ORIGIN/more"}), "/opt/x/lib/more/libb.so": libc},
			want: "liba.so => /opt/x/lib/liba.so (RUNPATH of /bin/app)\nlibb.so => /opt/x/lib/more/libb.so (RUNPATH of " +
				"/opt/x/lib/liba.so)"},
		{story: "$ORIGIN of a library is the directory in which it was found, link or not, and dots behind a link lead where the link does",
			files: machine{"/app": image(lib{needed: []string{"liba.so"}, runpath: "/tk/lib64"}),
				"/tk/lib64": []byte("-> /tk/targets/x/lib"), "/tk/targets/x/lib/liba.so": []byte("-> /opt/real/liba.so"),
				"/opt/real/liba.so": image(lib{needed: []string{"libb.so", "libc.so"}, runpath: "$ORIGIN:$ORIGIN/../more"}),
				"/opt/real/libb.so": libc, "/tk/targets/x/lib/libb.so": libc,
				"/tk/more/libc.so": libc, "/tk/targets/x/more/libc.so": libc},
			want: "liba.so => /tk/lib64/liba.so (RUNPATH of /app)\nlibb.so => /tk/lib64/libb.so (RUNPATH of /tk/lib64/liba.so)\n" +
				"libc.so => /tk/lib64/../more/libc.so (RUNPATH of /tk/lib64/liba.so)"},
		{story: "an empty entry of RUNPATH is the current directory",
			files: machine{"/app": image(lib{needed: []string{"liba.so"}, runpath: "/r:"}), "/proj/liba.so": libc},
			want:  "liba.so => /proj/liba.so (RUNPATH of /app)"},
		{story: "$LIB of two distributions",
			files: machine{"/app": image(lib{needed: []string{"liba.so"}, runpath: "/opt/$LIB"}), "/opt/lib64/liba.so": libc},
			want:  "liba.so => /opt/lib64/liba.so (RUNPATH of /app)"},
		{story: "a library of another machine is passed over", env: []string{"LD_LIBRARY_PATH=/arm"},
			files: machine{"/app": image(lib{needed: []string{"liba.so", "libb.so"}}), "/arm/liba.so": image(lib{machine: elf.EM_AARCH64}),
				"/arm/libb.so": image(lib{machine: elf.EM_AARCH64}), "/lib64/liba.so": libc},
			want: "liba.so => /lib64/liba.so (default directory)\nlibb.so =>  () missing: not found; passed over: /arm/libb.so " +
				"(AARCH64, 64 bit)"},
		{story: "a linker script stops the loader", env: []string{"LD_LIBRARY_PATH=/dev/lib"},
			files: machine{"/app": image(lib{needed: []string{"libc.so"}}), "/dev/lib/libc.so": []byte("GROUP ( libc.so.6 )"),
				"/lib64/libc.so": libc},
			want: "libc.so => /dev/lib/libc.so (LD_LIBRARY_PATH) broken: /dev/lib/libc.so: not an ELF file but text"},
		{story: "libraries that need each other", env: []string{"LD_LIBRARY_PATH=/l"},
			files: machine{"/app": image(lib{needed: []string{"liba.so"}}), "/l/liba.so": image(lib{needed: []string{"libb.so"}}),
				"/l/libb.so": image(lib{needed: []string{"liba.so", "libb.so"}})},
			want: "liba.so => /l/liba.so (LD_LIBRARY_PATH)\nlibb.so => /l/libb.so (LD_LIBRARY_PATH)"},
		{story: "a soname that is loaded is not looked for again", env: []string{"LD_LIBRARY_PATH=/l"},
			files: machine{"/app": image(lib{needed: []string{"liba.so", "libb.so.1"}}), "/l/liba.so": image(lib{soname: "libb.so.1"})},
			want:  "liba.so => /l/liba.so (LD_LIBRARY_PATH)"},
		{story: "a name with a path is not searched",
			files: machine{"/app": image(lib{needed: []string{"/opt/liba.so", "rel/libb.so", "./libc.so"}}), "/opt/liba.so": libc,
				"/proj/rel/libb.so": libc},
			want: "/opt/liba.so => /opt/liba.so (named by its path)\nrel/libb.so => /proj/rel/libb.so (named by its path)\n./libc.so => " +
				" () missing: not found"},
		{story: "an empty entry of LD_LIBRARY_PATH is the current directory", env: []string{"LD_LIBRARY_PATH=:/l"},
			files: machine{"/app": image(lib{needed: []string{"liba.so"}}), "/proj/liba.so": libc},
			want:  "liba.so => /proj/liba.so (LD_LIBRARY_PATH)"},
		{story: "a library that wants no default directories",
			files: machine{"/app": image(lib{needed: []string{"liba.so"}, noDef: true}), "/lib64/liba.so": libc},
			want:  "liba.so =>  () missing: not found"},
		{story: "a loader of Nix does not know the system's directories and cache",
			files: machine{"/app": image(lib{needed: []string{"libc.so.6", "liba.so"},
				interp: "/nix/store/x-glibc/lib/ld-linux-x86-64.so.2"}), "/nix/store/x-glibc/lib/ld-linux-x86-64.so.2": libc,
				"/nix/store/x-glibc/lib/libc.so.6": libc, "/lib64/libc.so.6": libc, "/lib64/liba.so": libc,
				"/etc/ld.so.cache": ldCache("liba.so", "/lib64/liba.so")},
			want: "libc.so.6 => /nix/store/x-glibc/lib/libc.so.6 (default directory)\nliba.so =>  () missing: not found"},
		{story: "the program's loader is not here",
			files: machine{"/app": image(lib{needed: []string{"libc.so"}, interp: "/lib/ld-musl-x86_64.so.1"})},
			want: "/lib/ld-musl-x86_64.so.1 =>  () missing: not found: it is the loader of the program, which does not start without it " +
				"(\"No such file or directory\")\n" +
				"libc.so =>  () missing: not found"},
		{story: "musl: no cache, its own file of directories, and the loader is the C library", env: []string{"LD_LIBRARY_PATH=/env"},
			files: machine{"/app": image(lib{needed: []string{"liba.so", "libb.so", "libc.musl-x86_64.so.1"}, rpath: "/r", runpath: "/r",
				interp: "/lib/ld-musl-x86_64.so.1"}),
				"/etc/ld-musl-x86_64.path": []byte("/m1:/m2\n"), "/m2/liba.so": libc, "/lib/liba.so": libc, "/r/libb.so": libc,
				"/env/libb.so": libc, "/lib/ld-musl-x86_64.so.1": libc},
			want: "liba.so => /m2/liba.so (default directory)\nlibb.so => /env/libb.so (LD_LIBRARY_PATH)\nlibc.musl-x86_64.so.1 => " +
				"/lib/ld-musl-x86_64.so.1 (the loader itself)"},
		{story: "musl: RUNPATH of who needs a library holds for what that one needs, and many names are the C library",
			env: []string{"LD_LIBRARY_PATH=:/env"},
			files: machine{"/app": image(lib{needed: []string{"liba.so", "libpthread.so.0", "libm.so.6"}, rpath: "/never", runpath: "/r",
				interp: "/lib/ld-musl-x86_64.so.1"}),
				"/r/liba.so": image(lib{needed: []string{"libb.so", "libx.so"}}), "/r/libb.so": libc, "/proj/libx.so": libc,
				"/never/libx.so": libc, "/env/libm.so.6": libc, "/lib/ld-musl-x86_64.so.1": libc},
			want: "liba.so => /r/liba.so (RUNPATH of /app)\nlibpthread.so.0 => /lib/ld-musl-x86_64.so.1 (the loader itself)\nlibm.so.6 " +
				"=> /lib/ld-musl-x86_64.so.1 (the loader itself)\n" +
				"libb.so => /r/libb.so (RUNPATH of /app)\nlibx.so =>  () missing: not found"},
		{story: "musl: a file of another machine ends the search, and LD_LIBRARY_PATH has no $ORIGIN",
			env: []string{"LD_LIBRARY_PATH=$ORIGIN:/env"},
			files: machine{"/app": image(lib{needed: []string{"liba.so", "libb.so"}, interp: "/lib/ld-musl-x86_64.so.1"}), "/liba.so": libc,
				"/lib/liba.so": libc, "/env/libb.so": image(lib{machine: elf.EM_AARCH64}),
				"/lib/libb.so": libc, "/lib/ld-musl-x86_64.so.1": libc},
			want: "liba.so => /lib/liba.so (default directory)\nlibb.so => /env/libb.so (LD_LIBRARY_PATH) broken: /env/libb.so is for " +
				"another machine (AARCH64, 64 bit), and musl's loader looks no further"},
		{story: "a broken cache is no cache",
			files: machine{"/app": image(lib{needed: []string{"libc.so.6"}}),
				"/etc/ld.so.cache": []byte("glibc-ld.so.cache1.1\xff\xff\xff\xff"), "/lib64/libc.so.6": libc},
			want: "libc.so.6 => /lib64/libc.so.6 (default directory)"},
	}
	for _, tt := range tests {
		t.Run(tt.story, func(t *testing.T) {
			app := "/app"
			if _, ok := tt.files[app]; !ok {
				app = "/bin/app"
			}
			libs, err := Resolve(tt.files.host(tt.env...), app, tt.dirs)
			if err != nil {
				t.Fatal(err)
			}
			if got := show(libs); got != tt.want {
				t.Errorf("got\n%s\nwant\n%s", got, tt.want)
			}
		})
	}
}

func TestResolveWhatIsNoProgram(t *testing.T) {
	files := machine{"/app": nil, "/pe": []byte("MZ\x90\x00\x03"), "/sh": []byte("#!/bin/sh\n"),
		"/cut":   image(lib{needed: []string{"a"}})[:80],
		"/macho": []byte("\xcf\xfa\xed\xfe\x07\x00\x00\x01"), "/a": []byte("!<arch>\n"), "/bin": []byte("\x00\x01\x02\x03")}
	for file, want := range map[string]string{"/app": "an empty file", "/pe": "a Windows program", "/sh": "a script", "/cut": "cannot",
		"/macho": "macOS", "/a": "static library", "/bin": "something else"} {
		_, err := Resolve(files.host(), file, nil)
		var not *NotELFError
		if !errors.As(err, &not) || not.Hint() == "" || want != "cannot" && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", file, err)
		}
	}
	if _, err := Resolve(files.host(), "/none", nil); err == nil {
		t.Error("a file that is not there")
	}
}

func TestOpen(t *testing.T) {
	files := machine{"/app": image(lib{needed: []string{"libc.so.6"}}), "/usr/lib/wsl/lib/libcuda.so.1": image(lib{soname: "libcuda.so.1"}),
		"/etc/ld.so.cache": ldCache("libcuda.so.1", "/usr/lib/wsl/lib/libcuda.so.1")}
	libs, err := Open(files.host(), "/app", []string{"libcuda.so.1", "libnvrtc.so.13"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := "libcuda.so.1 => /usr/lib/wsl/lib/libcuda.so.1 (ld.so.cache)\nlibnvrtc.so.13 =>  () missing: not found"
	if got := show(libs); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestRunDirs(t *testing.T) {
	x := []byte("x")
	files := machine{"/tk/lib64": []byte("-> /tk/lib"), "/tk/lib/libcudart.so.13": x, "/tk/lib/stubs/libcuda.so": x,
		"/tk/include/cuda.h": x, "/cudnn/lib/libcudnn.so.9": x,
		"/usr/local/cuda/targets/x86_64-linux/lib/libcudart.so.12": x, "/plain/libfoo.so": x, "/alias": []byte("-> /tk/lib/stubs")}
	got := RunDirs(files.host(), "/tk", "/tk/lib", "/cudnn", "", "relative", "/tk/lib/stubs", "/alias", "/usr/local/cuda", "/plain",
		"/none")
	want := "/tk/lib64 /cudnn/lib /usr/local/cuda/targets/x86_64-linux/lib /plain"
	if strings.Join(got, " ") != want {
		t.Errorf("got %v, want %s", got, want)
	}
}

func FuzzResolve(f *testing.F) {
	f.Add(image(lib{soname: "libcuda.so.1", needed: []string{"libfuzz.so", "libc.so.6"}, rpath: "$ORIGIN:$LIB",
		symbols: []string{stubMark}}), ldCache("libc.so.6", "/l/libc.so.6"))
	f.Add([]byte("\x7fELF"), []byte("glibc-ld.so.cache1.1"))
	f.Fuzz(func(t *testing.T, binary, cache []byte) {
		files := machine{"/app": binary, "/lib64/libfuzz.so": binary, "/l/libc.so.6": binary, "/etc/ld.so.cache": cache,
			"/etc/ld.so.conf": cache}
		libs, err := Resolve(files.host("LD_LIBRARY_PATH=/l"), "/app", []string{"/more"})
		if err == nil && len(libs) > maxObjects {
			t.Errorf("%d libraries", len(libs))
		}
	})
}
