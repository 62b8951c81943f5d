package toolchain

import (
	"gpubuild/gpu"
	"gpubuild/toolchain/cuda"
)

// IsVersion says whether a wish reads as a version, and so is not the name of a directory.
func IsVersion(wish string) bool {
	_, err := gpu.ParseVersion(wish)
	return err == nil
}

// Usable says why a version or a root cannot be wished for: nothing that was found is meant by it and can be used.
func Usable(found []cuda.Toolkit, wish string) error {
	f, w := Facts{Toolkits: found}, Wish{CUDA: wish}
	order, lost := ranked(f, w)
	if len(order) == 0 {
		return noToolkit(f, w, lost)
	}
	return nil
}
