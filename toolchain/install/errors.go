package install

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
	"gpubuild/gpu"
	"gpubuild/toolchain/install/redist"
	"gpubuild/toolchain/install/tree"
	"gpubuild/toolchain/install/wheel"
)

// NoPipError is the error for which a caller falls back to the redistributables.
type NoPipError = wheel.NoPipError

// NoFitError says that no pinned set may be used here, and why each one lost.
type NoFitError struct {
	Platform string
	Exact    gpu.Version
	Max      gpu.Version
	Newest   gpu.Version // that can be fetched; zero: not known
	Losers   []string    // one line a set
}

func (e *NoFitError) Error() string {
	what := "no CUDA toolkit to fetch"
	if !e.Exact.IsZero() {
		what = "no CUDA " + e.Exact.String() + " to fetch"
	}
	if len(e.Losers) == 0 {
		return what + " for " + e.Platform
	}
	return what + " for " + e.Platform + ":\n  " + strings.Join(e.Losers, "\n  ")
}

// ExitCode is exit.Usage for a version that is nowhere, and exit.Misfit for one that something here does not allow.
func (e *NoFitError) ExitCode() int {
	if !e.Exact.IsZero() && (e.Max.IsZero() || e.Exact.Compare(e.Max) <= 0) {
		return exit.Usage
	}
	return exit.Misfit
}

func (e *NoFitError) Hint() string {
	switch {
	case !e.Max.IsZero() && !e.Exact.IsZero() && e.Exact.Compare(e.Max) > 0:
		return fmt.Sprintf("ask for CUDA %s or older, or update the driver and the crates that set this limit", e.Max)
	case !e.Max.IsZero() && e.Max.Major < 13:
		return fmt.Sprintf("fetch CUDA %s from NVIDIA's redistributable archives (gpubuild toolchain install %s), "+
			"install it by NVIDIA's installer and name it with --gpu-toolkit, or update the driver", e.Max, e.Max)
	case !e.Exact.IsZero() && !e.Newest.IsZero() && len(e.Losers) == 0:
		return fmt.Sprintf("the newest is CUDA %s: gpubuild toolchain install %[1]s", e.Newest)
	case len(e.Losers) == 0:
		return "install CUDA by NVIDIA's installer and name its directory with --gpu-toolkit"
	}
	return "ask for one of the versions listed"
}

// DamagedError says that nothing can be added to a toolkit before it is repaired.
type DamagedError struct {
	Root    string
	CUDA    gpu.Version
	Problem string
}

func (e *DamagedError) Error() string { return e.Root + " is damaged: " + e.Problem }
func (e *DamagedError) ExitCode() int { return exit.Missing }

// Hint is the command that repairs it.
func (e *DamagedError) Hint() string { return "gpubuild toolchain install " + e.CUDA.String() }

// RedistError says that NVIDIA's redistributables did not help where pip could not.
type RedistError struct {
	First error // why the wheels were not taken; nil: they were not asked for
	Err   error
}

func (e *RedistError) Error() string {
	if e.First == nil {
		return e.Err.Error()
	}
	var wheels, archives *NoFitError
	if errors.As(e.First, &wheels) && errors.As(e.Err, &archives) && len(wheels.Losers)+len(archives.Losers) == 0 {
		return e.First.Error() // neither has such a version
	}
	var fetch *redist.FetchError
	if errors.As(e.First, &wheels) && len(wheels.Losers) == 0 && errors.As(e.Err, &fetch) && fetch.Kind == redist.Network {
		return fmt.Sprintf("%v by pip, and NVIDIA's redistributable archives (%s) cannot be reached", e.First, fetch.Address)
	}
	return e.First.Error() + "\nand of NVIDIA's redistributable archives: " + e.Err.Error()
}

func (e *RedistError) Unwrap() []error {
	if e.First == nil {
		return []error{e.Err}
	}
	return []error{e.First, e.Err}
}

// ExitCode is that of what the archives answered: where they cannot be reached, nothing is known of the version.
func (e *RedistError) ExitCode() int { return exit.Of(e.Err) }

func (e *RedistError) Hint() string {
	var none *NoFitError
	var hinted interface{ Hint() string }
	if errors.As(e.Err, &none) && len(none.Losers) == 0 && e.First != nil && errors.As(e.First, &hinted) || errors.As(e.Err, &hinted) {
		return hinted.Hint()
	}
	return "name another place by --redist or GPUBUILD_REDIST"
}

// SpaceError says that the disk filled up, and what was half-written is gone, or that it would.
type SpaceError struct {
	Dir  string
	Need int64 // bytes that the whole toolkit takes
	Free int64 // bytes that are free; 0: it was tried
	Err  error // of what was tried
}

func (e *SpaceError) Error() string {
	if e.Free > 0 {
		return fmt.Sprintf("%s: too little space: the toolkit needs %s, and %s are free", e.Dir, tree.Size(e.Need), tree.Size(e.Free))
	}
	return fmt.Sprintf("%s: the disk is full, the toolkit needs %s: %v", e.Dir, tree.Size(e.Need), e.Err)
}

func (e *SpaceError) Unwrap() error { return e.Err }

func (e *SpaceError) Hint() string {
	return "free some space, or set GPUBUILD_CACHE to a directory on a larger disk"
}

// WriteError says that the cache cannot be written.
type WriteError struct {
	Dir string
	Err error
}

func (e *WriteError) Error() string { return fmt.Sprintf("%s: cannot be written: %v", e.Dir, e.Err) }
func (e *WriteError) Unwrap() error { return e.Err }
func (e *WriteError) Hint() string  { return "set GPUBUILD_CACHE to a directory that you may write" }

// diskFull is Windows' ERROR_DISK_FULL (winerror.h); Go maps it to no name of its own.
const diskFull = syscall.Errno(112)

// explained gives an error of the file system a type that says what to do.
func (p Plan) explained(err error) error {
	var space *SpaceError
	var write *WriteError
	switch {
	case err == nil || errors.As(err, &space) || errors.As(err, &write):
		return err
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT), p.host.OS == buildenv.Windows && errors.Is(err, diskFull):
		return &SpaceError{Dir: p.cache, Need: p.Disk + p.Fetch, Err: err}
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return &WriteError{Dir: p.cache, Err: err}
	}
	return err
}
