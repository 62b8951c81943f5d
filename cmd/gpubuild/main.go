// Command gpubuild stands where `cargo build` stood: it checks that the cuda feature arrives, chooses and sets a toolchain that fits,
// cleans what is stale, builds with cargo, and proves that the binary's kernel ran on the GPU.
package main

import (
	"os"

	"gpubuild/cmd/internal/cli"
)

func main() {
	os.Exit(cli.Main(os.Args, os.Stdin, os.Stdout, os.Stderr))
}
