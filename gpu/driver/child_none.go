//go:build !windows && (!linux || !cgo)

package driver

import "io"

// builtIn says whether NVML can be asked; elsewhere nvidia-smi is.
const builtIn = false

func ask() answer { return answer{Error: "this gpubuild was built without NVML"} }

// WatchMain says that this program was built without NVML's samples.
func WatchMain(io.Writer) int { return childUnsupported }
