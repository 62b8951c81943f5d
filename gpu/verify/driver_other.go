//go:build !windows

package verify

import "errors"

func systemDirectory() string { return "" }

func signature(string) error { return errors.New("signatures are Windows' own") }
