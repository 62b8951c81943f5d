package redist

import "fmt"

// IndexError says that NVIDIA's index, or a mirror's, has something that cannot be used.
type IndexError struct{ Index, Problem string }

func (e *IndexError) Error() string { return e.Index + ": " + e.Problem }

func (e *IndexError) Hint() string {
	return "name another release (gpubuild toolchain install 12.8), or another place with --redist or GPUBUILD_REDIST"
}

// FetchError says that an index or an archive could not be fetched.
type FetchError struct {
	Address string
	Offline bool // it is the network's fault
	Err     error
}

func (e *FetchError) Error() string {
	if e.Offline {
		return fmt.Sprintf("fetch %s: no network: %v", e.Address, e.Err)
	}
	return fmt.Sprintf("fetch %s: %v", e.Address, e.Err)
}

func (e *FetchError) Unwrap() error { return e.Err }

func (e *FetchError) Hint() string {
	if e.Offline {
		return "check the network and HTTPS_PROXY, or name a mirror or a directory with the layout of " + Home +
			" by --redist or GPUBUILD_REDIST; what was fetched is kept"
	}
	return "run the same command again, what was fetched is kept; or name another place by --redist or GPUBUILD_REDIST"
}
