package nvcc

import (
	"cmp"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpubuild/buildenv"

	"gpubuild/buildenv/hosttest"
	"gpubuild/gpu"
)

// TestParse: what is cached, what is not, and why.
func TestParse(t *testing.T) {
	t.Parallel()
	file := filepath.Join(hosttest.PlainDir(t), "flags")
	for name, text := range map[string]string{file: "-I\"a b\" -O3", file + ".o": "-o x.o", file + ".q": `-DX=\"a\"`, file + ".t": "-I\"a b\" --time t.csv --keep-dir d"} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for words, want := range map[string]string{
		"-c /home/native/k.cu -o k.o":                       "",
		"--compile k.cu --output-file=k.o -MD -MF k.d":      "",
		"--ptx --output-directory out k.cu":                 "",
		"-c k.cu --options-file " + file:                    "",
		"-c k.cu --options-file " + file + ".o":             "an output that is not named on the command line",
		"-c k.cu -optf " + file + ".q":                      "an options file",
		"-c k.cu @none":                                     "an options file",
		"-c k.cu -arch native":                              "a choice that depends on this machine",
		"-c k.cu -arch=native":                              "a choice that depends on this machine",
		"-c k.cu -Xcompiler -O2,-march=native":              "a choice that depends on this machine",
		"-c k.cu -Xcompiler -fplugin=x.so":                  "the option -Xcompiler -fplugin=x.so",
		"-c k.cu -Xcompiler -Wa,-Iz":                        "the option -Xcompiler -Wa,-Iz",
		"-c k.cu -Xptxas -o":                                "the option -Xptxas -o",
		"-c a.cu b.cu":                                      "not exactly one input",
		"-c k.ptx":                                          "an input that is no source file",
		"--lib -o a.a k.o":                                  "the option --lib",
		"-dlink k.o":                                        "the option -dlink",
		"-c k.cu --keep":                                    "the option --keep",
		"-c k.cu -o k.o -odir out":                          "both an output file and an output directory",
		"k.cu":                                              "not a compilation",
		"-c k.cu -o k.o -MD -MT=":                           "the option -MT= without a value",
		"-c k.cu -o k.o -MT x":                              "an option for a dependency list that is not asked for",
		"-c k.cu -MD":                                       "a dependency list without a name",
		"-c k.cu --split-compile=0":                         "",
		"-c k.cu -v -t4 -lcudart -L/x -lstdc++":             "",
		"-c k.cu -ldir=/x":                                  "the option -ldir=/x",
		"-c k.cu -ldir /x":                                  "the option -ldir",
		"-c k.cu -link":                                     "the option -link",
		"-c k.cu -t0 --verbose -lineinfo --source-in-ptx":   "",
		"-c -forward-unknown-to-host-compiler k.cu -fPIC":   "",
		"-c k.cu -fPIC":                                     "the option -fPIC",
		"-c k.cu -Xcompiler -ffile-prefix-map=/a=,-I/b":     "",
		"-c -forward-unknown-opts k.cu -fprofile-use=x":     "the option -fprofile-use=x",
		"-c -forward-unknown-opts k.cu -fplugin=x":          "the option -fplugin=x",
		"-c -forward-unknown-opts k.cu -march=native":       "a choice that depends on this machine",
		"-c k.cu -brand-new-option":                         "the option -brand-new-option",
		"--version":                                         "the option --version",
		"-Iinc -DA=-o -D B=1 -std=c++17 -c k.cu -t 4 -G":    "",
		"-Xcompiler -fPIC -Xcompiler=-O3,-Wall -cubin k.cu": "",
		"-c k.cu -Xcicc -O1":                                "",
		"-c k.cu -Xcicc -discard":                           "the option -Xcicc -discard",
	} {
		if got := parse(strings.Fields(words), "", ""); got.unknown != want {
			t.Errorf("%s: %q, want %q", words, got.unknown, want)
		}
	}
	c := parse([]string{"-c", "k.cu", "-o", "k.o", "-MD", "-MF", "k.d", "-t", "4", "-O3"}, "-lineinfo", "-DZ")
	if got := strings.Join(c.dryrun, " "); got != "-c k.cu -O3" {
		t.Errorf("asked with %q", got)
	}
	if got := strings.Join(c.words, " "); got != "-lineinfo -c k.cu -O3 -DZ" || !c.debug || c.output() != "k.o" ||
		c.dependencies() != "k.d" {
		t.Errorf("%q %+v", got, c)
	}
	// else --dryrun would write the table of times, too
	if got := strings.Join(parse([]string{"-c", "k.cu", "-optf", file + ".t", "-O3"}, "-G", "").dryrun, " "); got != "-c k.cu -Ia b -O3" {
		t.Errorf("with an options file: %q", got)
	}
	if got := strings.Join(parse([]string{"-c", "k.cu", "@" + file}, "", "").dryrun, " "); got != "-c k.cu @"+file {
		t.Errorf("with a word that nvcc refuses: %q", got)
	}
	if c := parse([]string{"-c", "k.cu"}, "", "-o x.o"); c.unknown == "" {
		t.Error("an output in NVCC_APPEND_FLAGS")
	}
	for words, debug := range map[string]bool{"-G": true, "-g": true, "--device-debug": true, "-lineinfo": true, "-Xcompiler -g": true, "-Xcompiler -ggdb3": true, "-Xcompiler=-O2,-gdwarf-4": true,
		"-Xcompiler -O2": false, "-Xcompiler -Wall": false, "-O3": false} {
		if got := parse(append([]string{"-c", "k.cu"}, strings.Fields(words)...), "", ""); got.debug != debug || got.unknown != "" {
			t.Errorf("%s: debug information %v, %q", words, got.debug, got.unknown)
		}
	}
	for words, want := range map[string]string{"-c a/k.cu": "k.o", "-ptx -odir x a/k.cu": "x/k.ptx", "-dc k.cu -o y": "y"} {
		if got := parse(strings.Fields(words), "", ""); filepath.ToSlash(got.output()) != want {
			t.Errorf("%s writes %s", words, got.output())
		}
	}
	for words, want := range map[string]string{"-c k.cu -o a.b/k.o -MD": "a.b/k.d", "-c k.cu -o k.o -MD -MF x": "x", "-c k.cu -o k.o": ""} {
		if got := parse(strings.Fields(words), "", ""); got.dependencies() != want {
			t.Errorf("%s lists dependencies in %q", words, got.dependencies())
		}
	}
	for _, value := range []string{"-1", "x", ""} {
		if got := parse([]string{"-c", "k.cu", "-t=" + value}, "", ""); got.unknown == "" {
			t.Errorf("%q threads", value)
		}
	}
	c = parse([]string{"-c", "k.cu"}, `-DX="a b" -t 4`, "--threads 2 -v -DY")
	if got := strings.Join(c.words, "|"); c.unknown != "" || got != "-DX=a b|-c|k.cu|-DY" || c.flags != [2]string{`-DX="a b"`, "-DY"} || c.threads != 2 || !c.verbose {
		t.Errorf("flags in variables: %q %+v", got, c)
	}
	for _, before := range []string{"-DX='a'", "-DX=\"a", "-DX=$Y", "-DX=`y`"} {
		if parse([]string{"-c", "k.cu"}, before, "").unknown == "" || parse([]string{"-c", "k.cu"}, "", before).unknown == "" {
			t.Errorf("a variable with %s", before)
		}
	}
}

// TestWithChosen: cc's default gives way to the compiler that was chosen, and nothing else does.
func TestWithChosen(t *testing.T) {
	for _, tt := range []struct{ args, env, want string }{
		{"-ccbin=c++ -O0 -c a.cu", "NVCC_CCBIN=/usr/bin/g++-12", "-ccbin=/usr/bin/g++-12 -O0 -c a.cu"},
		{"-ccbin=c++ a.cu", "", "-ccbin=c++ a.cu"},
		{"-ccbin=c++ a.cu", "NVCC_CCBIN=/usr/bin/g++-12 CXX=c++", "-ccbin=c++ a.cu"},
		{"-ccbin=c++ a.cu", "NVCC_CCBIN=/usr/bin/g++-12 HOST_CXX=c++", "-ccbin=c++ a.cu"},
		{"-ccbin=/opt/c++ -ccbin c++ a.cu", "NVCC_CCBIN=/usr/bin/g++-12", "-ccbin=/opt/c++ -ccbin c++ a.cu"},
	} {
		args := strings.Fields(tt.args)
		got := withChosen(args, buildenv.Host{Env: buildenv.NewEnv(buildenv.Linux, strings.Fields(tt.env))})
		if strings.Join(got, " ") != tt.want || strings.Join(args, " ") != tt.args {
			t.Errorf("%s with %s: %q, and %q was given", tt.args, tt.env, got, args)
		}
	}
}

// TestWithArchs: which calls are compiled for all architectures of a list, and for which of them.
func TestWithArchs(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ list, typed, with, only string }{ // with: +, what is added; =, the whole line
		{"80,90", "-c -gencode=arch=compute_80,code=sm_80 k.cu", "+ 90", ""},
		{"80,90", "-c --gpu-architecture=sm_80 k.cu", "+ 90", ""},
		{"90,80", "-dc -arch compute_80 -code sm_80 k.cu", "+ 90", ""},
		{"80,90", "-fatbin -gencode arch=compute_80,code=[sm_80,compute_80] k.cu", "+ 90", ""},
		{"80,90", "-c k.cu", "=-c k.cu -arch=sm_80 -gencode=arch=compute_90,code=sm_90", ""}, // as nvcc's default, machine code and PTX
		{"80,90", "-shared k.cu", "=-shared k.cu -arch=sm_80 -gencode=arch=compute_90,code=sm_90", ""},
		{"80,90", "-cubin k.cu", "=-cubin k.cu -arch=sm_80", "sm_80"},
		{"80,90", "-ptx k.cu", "=-ptx k.cu -arch=sm_80", "compute_80"},
		{"90a,120", "-ptx k.cu", "=-ptx k.cu -arch=sm_90a", "compute_90a"},
		{"80,90", "-cubin -arch native k.cu", "=-cubin -arch sm_80 k.cu", "sm_80"},
		{"80,90", "-cubin -gencode=arch=compute_75,code=sm_86 k.cu", "+", "sm_86"},
		{"80,90", "-ptx -arch=compute_75 -code=sm_86 k.cu", "+", "compute_75"},
		{"80,90", "-c -arch=native k.cu", "=-c -arch=sm_80 k.cu -gencode=arch=compute_90,code=sm_90", ""},
		{"80,90", "-c -arch=sm_70 k.cu", "+ 80 90", ""},
		{"80,90", "-c -arch=all-major k.cu", "+", ""},
		{"80,90", "-c -arch all k.cu", "+", ""},
		{"80,90", "-c -gencode=arch=compute_80,code=sm_80 -gencode=arch=compute_90,code=sm_90 k.cu", "+", ""},
		{"90,120", "-c -gencode=arch=compute_90a,code=sm_90a k.cu", "+ 120", ""},
		{"90a,120", "-c -arch=sm_90 k.cu", "+ 90a 120", ""},
		{"80,90", "--lib -arch=sm_80 k.o -o k.a", "+ 90", ""},
		{"80,90", "-dlink -arch=sm_80 k.o -o k.o", "+ 90", ""},
		{"80,90", "-shared -arch=sm_80 k.cu -o libk.so", "+ 90", ""},
		{"80,90", "-E -arch=sm_80 k.cu", "+", ""},
		{"80,90", "-M k.cu", "+", ""},
		{"80,90", "--version", "+", ""},
		{"80,90", "-c -dlto -arch=sm_80 k.cu", "+", "sm_80"},
		{"80,90", "-dc -gencode arch=compute_80,code=lto_80 k.cu", "+", "sm_80"},
		{"80,90", "-cubin -arch=sm_80 k.cu", "+", "sm_80"},
		{"80,90", "-ptx -arch=compute_80 -Ix_80a k.cu", "+", "compute_80"},
		{"90,120", "-ptx -gencode=arch=compute_90a,code=sm_90a -Ix_90a k.cu", "=-ptx -gencode=arch=compute_90,code=sm_90 -Ix_90a k.cu", "compute_90"},
		{"90,120", "-ptx -arch sm_90a k.cu", "=-ptx -arch sm_90 k.cu", "compute_90"},
		{"90a,120", "-ptx -arch sm_90a k.cu", "+", "compute_90a"},
		{"90,120", "-cubin -arch=sm_90a k.cu", "+", "sm_90a"},
		{"", "-c k.cu", "+", ""},
	} {
		list, err := gpu.ParseArchs(tt.list)
		hosttest.Equal(t, err == nil, tt.list != "", tt.list)
		args := strings.Fields(tt.typed)
		want := tt.typed
		if whole, is := strings.CutPrefix(tt.with, "="); is {
			want = whole
		} else {
			for _, a := range strings.Fields(tt.with)[1:] {
				want += " -gencode=arch=compute_" + a + ",code=sm_" + a
			}
		}
		with, only := withArchs(args, parse(args, "", ""), list)
		hosttest.Equal(t, strings.Join(with, " "), want, tt.list, tt.typed)
		hosttest.Equal(t, only.String(), cmp.Or(tt.only, gpu.Arch{}.String()), tt.list, tt.typed)
		hosttest.Equal(t, strings.Join(args, " "), tt.typed)
	}
}
