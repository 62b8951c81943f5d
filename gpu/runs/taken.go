package runs

import (
	"gpubuild/gpu"
	"gpubuild/gpu/fatbin"
)

// Taken lists the kernels of the images that a driver takes for a GPU, or may take, however old the driver is: those that a program can
// launch there. One that several fatbins hold is named for each.
func Taken(r *fatbin.Report, c gpu.Capability) (names []string) {
	for _, k := range Judge(r, nil, Target{GPU: c}).Kernels {
		if !k.absent {
			names = append(names, k.Name)
		}
	}
	return names
}
