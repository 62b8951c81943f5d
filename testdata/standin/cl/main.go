// Command cl stands in for Microsoft's cl.exe under Wine: it says cl's banner and hands its arguments to the clang-cl inside the ziglang wheel.
// It claims the version of the toolset in whose directory it lies: 14.44.35207 is 19.44.35207. STANDIN_ZIG names zig.exe, STANDIN_CL_LOG a file
// that gets one line a call.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
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
	args := append([]string{"clang", "--driver-mode=cl", "--target=x86_64-pc-windows-msvc", "-fms-compatibility-version=" + version, "-Xclang", "-nobuiltininc", "-Wno-everything"}, os.Args[1:]...)
	c := exec.Command(os.Getenv("STANDIN_ZIG"), args...)
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	err = c.Run()
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
