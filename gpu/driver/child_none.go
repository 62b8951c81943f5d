//go:build !windows && (!linux || !cgo)

package driver

import "io"

// builtIn says whether ChildMain can ask NVML.
const builtIn = false

// ChildMain says that this program was built without NVML.
func ChildMain(w io.Writer) int {
	data, _ := answer{Error: "this gpubuild was built without NVML"}.encode()
	if _, err := w.Write(data); err != nil {
		return childFailed
	}
	return childUnsupported
}
