package redist

import (
	"fmt"
)

// IndexError says that NVIDIA's index, or a mirror's, has something that cannot be used.
type IndexError struct{ Index, Problem string }

func (e *IndexError) Error() string { return e.Index + ": " + e.Problem }

func (e *IndexError) Hint() string {
	return "name another release (gpubuild toolchain install 12.8), or another place with --redist or GPUBUILD_REDIST"
}

// FetchError says that an index or an archive could not be fetched.
type FetchError struct {
	Address string
	Kind    Kind
	Err     error
}

// Kind is why a file could not be fetched.
type Kind string

// The known kinds.
const (
	Other   Kind = ""
	Network Kind = "no network"
	Absent  Kind = "not there"
)

func (e *FetchError) Error() string {
	if e.Kind == Other {
		return fmt.Sprintf("fetch %s: %v", e.Address, e.Err)
	}
	return fmt.Sprintf("fetch %s: %s: %v", e.Address, e.Kind, e.Err)
}

func (e *FetchError) Unwrap() error { return e.Err }

func (e *FetchError) Hint() string {
	switch e.Kind {
	case Network:
		return "check the network and HTTPS_PROXY, or name a mirror or a directory with the layout of " + Home +
			" by --redist or GPUBUILD_REDIST; what was fetched is kept"
	case Absent:
		return "name a place that has the file by --redist or GPUBUILD_REDIST"
	}
	return "run the same command again, what was fetched is kept; or name another place by --redist or GPUBUILD_REDIST"
}
