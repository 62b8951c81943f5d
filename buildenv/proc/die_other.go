//go:build !linux

package proc

// DieBy ends this process by a signal where that can be done: not here. See tree_linux.go.
func DieBy(int) {}

func limitMemory(int, uint64) {}
