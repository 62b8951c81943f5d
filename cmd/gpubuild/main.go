// Command gpubuild replaces cargo on the command line: it checks that the cuda feature enables the GPU crates, chooses a toolchain that
// works, cleans what is stale, builds with cargo, and proves that the program's kernel ran on the GPU.
package main

import (
	"os"

	"gpubuild/cmd/internal/cli"
)

func main() {
	os.Exit(cli.Main(os.Args, os.Stdin, os.Stdout, os.Stderr))
}
