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
)

// UnknownPartError says that something was asked for that no set has.
type UnknownPartError struct {
	Name  string
	Known []string
}

func (e *UnknownPartError) Error() string { return fmt.Sprintf("%q is no part of a toolkit", e.Name) }

// ExitCode is exit.Usage.
func (e *UnknownPartError) ExitCode() int { return exit.Usage }

// Hint lists what can be asked for.
func (e *UnknownPartError) Hint() string { return "ask for one of " + strings.Join(e.Known, ", ") }

// NoFitError says that no pinned set may be used here, and why each one lost.
type NoFitError struct {
	Platform string
	Exact    gpu.Version
	Max      gpu.Version
	Losers   []string // one line a set
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

// ExitCode is exit.Misfit.
func (e *NoFitError) ExitCode() int { return exit.Misfit }

// Hint says what a user can do about it.
func (e *NoFitError) Hint() string {
	switch {
	case !e.Max.IsZero() && !e.Exact.IsZero() && e.Exact.Compare(e.Max) > 0:
		return fmt.Sprintf("ask for CUDA %s or older, or update the driver and the crates that set this limit", e.Max)
	case !e.Max.IsZero() && e.Max.Major < 13:
		return fmt.Sprintf("fetch CUDA %s from NVIDIA's redistributable archives (gpubuild toolchain install %s), install it by NVIDIA's installer and name it with --gpu-toolkit, or update the driver", e.Max, e.Max)
	case len(e.Losers) == 0:
		return "install CUDA by NVIDIA's installer and name its directory with --gpu-toolkit"
	}
	return "ask for one of the versions listed"
}

// NoPipError says that none of the ways to start pip worked.
type NoPipError struct{ Tried []string }

func (e *NoPipError) Error() string {
	return "no pip to fetch the toolkit with (tried " + strings.Join(e.Tried, ", ") + ")"
}

// ExitCode is exit.Missing.
func (e *NoPipError) ExitCode() int { return exit.Missing }

// Hint says what a user can do about it.
func (e *NoPipError) Hint() string {
	return "let GPUBUILD_REDIST be, and NVIDIA's redistributable archives are taken; or install pip (Debian and Ubuntu: apt install python3-pip) or, where CUDA is installed already, name its directory with --gpu-toolkit"
}

// FetchError says that pip could not fetch a wheel.
type FetchError struct {
	Wheels []string // those of the run that failed
	Kind   FetchKind
	Err    error
}

// FetchKind is what kept pip from fetching, as far as its words tell.
type FetchKind string

// The kinds that are told apart.
const (
	FetchOther   FetchKind = ""
	FetchNetwork FetchKind = "no network"
	FetchAbsent  FetchKind = "not on the package index"
	FetchSpace   FetchKind = "disk full"
	FetchPolicy  FetchKind = "pip's own configuration forbids it"
)

func (e *FetchError) Error() string {
	why := ""
	if e.Kind != "" {
		why = ": " + string(e.Kind)
	}
	return fmt.Sprintf("fetch %s%s: %v", strings.Join(e.Wheels, ", "), why, e.Err)
}

func (e *FetchError) Unwrap() error { return e.Err }

// Hint says what a user can do about it.
func (e *FetchError) Hint() string {
	switch e.Kind {
	case FetchNetwork:
		return "check the network, HTTPS_PROXY and pip's index-url; what was fetched already is kept, so run the same command again"
	case FetchAbsent:
		return "the mirror that pip uses lacks this file: set PIP_INDEX_URL to one that has NVIDIA's wheels, or put the wheels in a directory and name it"
	case FetchSpace:
		return spaceHint
	case FetchPolicy:
		return "start gpubuild in a virtual environment, or unset PIP_REQUIRE_VIRTUALENV for this command"
	}
	return "pip's message says what is wrong; what was fetched already is kept, so run the same command again"
}

// RedistError says that NVIDIA's redistributables did not help where pip could not.
type RedistError struct {
	First error // why the wheels were not taken; nil: they were not asked for
	Err   error
}

func (e *RedistError) Error() string {
	if e.First == nil {
		return e.Err.Error()
	}
	return e.First.Error() + "\nand of NVIDIA's redistributable archives: " + e.Err.Error()
}

func (e *RedistError) Unwrap() []error {
	if e.First == nil {
		return []error{e.Err}
	}
	return []error{e.First, e.Err}
}

// Hint says what a user can do about it.
func (e *RedistError) Hint() string {
	var fetch *FetchError
	var other interface{ Hint() string }
	var none *NoFitError
	switch {
	case errors.As(e.Err, &fetch) && fetch.Kind == FetchNetwork:
		return "check the network and HTTPS_PROXY, or name a mirror or a directory with the layout of " + RedistHome + " by --redist or GPUBUILD_REDIST; what was fetched is kept"
	case errors.As(e.Err, &fetch) && fetch.Kind == FetchAbsent:
		return "name a place that has the file by --redist or GPUBUILD_REDIST"
	case errors.As(e.Err, &fetch):
		return "run the same command again, what was fetched is kept; or name another place by --redist or GPUBUILD_REDIST"
	case errors.As(e.Err, &none) && len(none.Losers) == 0 && e.First != nil && errors.As(e.First, &other):
		return other.Hint()
	case errors.As(e.Err, &other):
		return other.Hint()
	}
	return "name another place by --redist or GPUBUILD_REDIST"
}

// HashError says that a file is not the one that was pinned. It is never unpacked.
type HashError struct {
	File, Want, Got string // Got is empty when pip found the difference
}

func (e *HashError) Error() string {
	if e.Got == "" {
		return e.File + ": not the pinned file (sha256 differs from " + e.Want + ")"
	}
	return fmt.Sprintf("%s: sha256 is %s, pinned is %s", e.File, e.Got, e.Want)
}

// Hint says what a user can do about it.
func (e *HashError) Hint() string {
	return "the file was damaged on its way or replaced by a mirror: run the same command again, then try another index (PIP_INDEX_URL, GPUBUILD_REDIST)"
}

// ArchiveError says that an entry of a wheel may not or cannot be unpacked.
type ArchiveError struct {
	Wheel, Entry, Why string
	Err               error
}

func (e *ArchiveError) Error() string {
	s := e.Wheel
	if e.Entry != "" {
		s += fmt.Sprintf(": entry %q", e.Entry)
	}
	if e.Err != nil {
		return fmt.Sprintf("%s: %s: %v", s, e.Why, e.Err)
	}
	return s + ": " + e.Why
}

func (e *ArchiveError) Unwrap() error { return e.Err }

// Hint says what a user can do about it.
func (e *ArchiveError) Hint() string {
	return "nothing was installed; remove the file and run the same command again"
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
		return fmt.Sprintf("%s: too little space: the toolkit needs %s, and %s are free", e.Dir, size(e.Need), size(e.Free))
	}
	return fmt.Sprintf("%s: the disk is full, the toolkit needs %s: %v", e.Dir, size(e.Need), e.Err)
}

func (e *SpaceError) Unwrap() error { return e.Err }

const spaceHint = "free some space, or set GPUBUILD_CACHE to a directory on a larger disk"

// Hint says what a user can do about it.
func (e *SpaceError) Hint() string { return spaceHint }

// WriteError says that the cache cannot be written.
type WriteError struct {
	Dir string
	Err error
}

func (e *WriteError) Error() string { return fmt.Sprintf("%s: cannot be written: %v", e.Dir, e.Err) }
func (e *WriteError) Unwrap() error { return e.Err }

// Hint says what a user can do about it.
func (e *WriteError) Hint() string { return "set GPUBUILD_CACHE to a directory that you may write" }

// NoCompilerError says that there is no C compiler to make link stubs with.
type NoCompilerError struct{ Tried []string }

func (e *NoCompilerError) Error() string {
	return "no C compiler to make libcuda's link stub with (tried " + strings.Join(e.Tried, ", ") + ")"
}

// ExitCode is exit.Missing.
func (e *NoCompilerError) ExitCode() int { return exit.Missing }

// Hint says what a user can do about it.
func (e *NoCompilerError) Hint() string {
	return "install gcc (Debian and Ubuntu: apt install g++); nvcc needs it, too"
}

// StubError says that a link stub could not be made.
type StubError struct {
	Library string
	Err     error
}

func (e *StubError) Error() string { return fmt.Sprintf("link stub for %s: %v", e.Library, e.Err) }
func (e *StubError) Unwrap() error { return e.Err }

// Hint says what a user can do about it.
func (e *StubError) Hint() string {
	return "check that the C compiler on PATH can make a shared library"
}

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
		return &SpaceError{Dir: p.cacheDir, Need: p.Disk + p.Fetch, Err: err}
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return &WriteError{Dir: p.cacheDir, Err: err}
	}
	return err
}
