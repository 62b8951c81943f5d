//go:build !linux

package verify

func capable(string) (bool, error) { return false, nil }
