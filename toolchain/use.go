package toolchain

import (
	"gpubuild/gpu"
	"gpubuild/toolchain/cuda"
)

// ByUse is the origin of a wish in the user's own configuration.
const ByUse = "gpubuild toolchain use"

// IsVersion says whether a wish reads as a version, and so is not the name of a directory.
func IsVersion(wish string) bool {
	_, err := gpu.ParseVersion(wish)
	return err == nil
}

// First is the toolkit that a build tries first for a wish, which is a version, a root or nothing; the error says why none can be used.
func First(found []cuda.Toolkit, wish string) (cuda.Toolkit, error) {
	f, w := Facts{Toolkits: found}, Wish{CUDA: wish}
	order, lost := ranked(f, w)
	if len(order) == 0 {
		return cuda.Toolkit{}, noToolkit(f, w, lost)
	}
	return *order[0], nil
}
