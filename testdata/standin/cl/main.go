// Command cl stands in for Microsoft's cl.exe under Wine: it says cl's banner and hands its arguments to the clang-cl inside the ziglang
// wheel, and what is to be linked to the lld-link there. It claims the version of the toolset in whose directory it lies: 14.44.35207 is
// 19.44.35207. STANDIN_ZIG names zig.exe, STANDIN_CL_LOG a file that gets one line a call.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"unicode/utf8"
)

var toolset = regexp.MustCompile(`\\MSVC\\14\.(\d+\.\d+)\\`)

func main() { os.Exit(run()) }

func run() int {
	self, err := os.Executable()
	if err != nil {
		fmt.Fprintln(os.Stderr, "stand-in cl:", err)
		return 2
	}
	m := toolset.FindStringSubmatch(self)
	if m == nil {
		fmt.Fprintln(os.Stderr, "stand-in cl:", self, "lies in no toolset")
		return 2
	}
	version := "19." + m[1]
	if path := os.Getenv("STANDIN_CL_LOG"); path != "" {
		f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
		if err != nil {
			fmt.Fprintln(os.Stderr, "stand-in cl:", err)
			return 2
		}
		fmt.Fprintf(f, "%s VSCMD_VER=%s INCLUDE=%s LIB=%s ARGS=%s\n", self, os.Getenv("VSCMD_VER"), os.Getenv("INCLUDE"), os.Getenv("LIB"), strings.Join(os.Args[1:], " "))
		f.Close()
	}
	fmt.Fprintf(os.Stderr, "Microsoft (R) C/C++ Optimizing Compiler Version %s for x64\nCopyright (C) Microsoft Corporation.  All rights reserved.\n\n", version)
	given, err := inUTF8(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "stand-in cl:", err)
		return 2
	}
	compile, link := split(given, filepath.SplitList(os.Getenv("LIB")))
	args := append([]string{"clang", "--driver-mode=cl", "--target=x86_64-pc-windows-msvc", "-fms-compatibility-version=" + version, "-Xclang", "-fuse-line-directives", "-Xclang", "-nobuiltininc", "-Wno-everything"}, compile...)
	if code := zig(args); code != 0 || link == nil {
		return code
	}
	return zig(link)
}

// inUTF8 puts a response file, which nvcc.exe writes in the machine's code page and the real cl reads so, into the encoding that clang
// reads. The code page under Wine is 1252; what it has beyond Latin 1 no test needs.
func inUTF8(args []string) ([]string, error) {
	out := append([]string{}, args...)
	for i, a := range out {
		name, ok := strings.CutPrefix(a, "@")
		if !ok {
			continue
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		if utf8.Valid(data) {
			continue
		}
		var b strings.Builder
		for _, c := range data {
			b.WriteRune(rune(c))
		}
		if err := os.WriteFile(name+".utf8", []byte(b.String()), 0o644); err != nil {
			return nil, err
		}
		out[i] = a + ".utf8"
	}
	return out, nil
}

func zig(args []string) int {
	c := exec.Command(os.Getenv("STANDIN_ZIG"), args...)
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	err := c.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "stand-in cl:", err)
		return 2
	}
	return 0
}

// split makes two commands of one that names a program (/Fe:) or a library (/LD): cl starts the linker by itself, and clang-cl would look
// for Microsoft's. Which libraries those are is what libcmt.lib itself says; here it is said by us.
func split(args, libs []string) (compile, link []string) {
	var out, object string
	dll := false
	for _, a := range args {
		switch {
		case strings.HasPrefix(a, "/Fe:"):
			out = strings.TrimPrefix(a, "/Fe:")
			continue
		case a == "/LD":
			dll = true
			continue
		case strings.HasPrefix(a, "/Fo:"):
			object = strings.TrimPrefix(a, "/Fo:")
		}
		compile = append(compile, a)
	}
	if out == "" {
		return args, nil
	}
	link = []string{"lld-link", "/nologo", "/out:" + out, object, "/nodefaultlib:oldnames.lib", "kernel32.lib", "ucrt.lib"}
	if dll {
		link = append(link, "/dll")
	}
	for _, dir := range libs {
		link = append(link, "/libpath:"+dir)
	}
	return append(compile, "/c"), link
}
