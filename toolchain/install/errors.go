package install

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"gpubuild/buildenv/exit"
	"gpubuild/gpu"
	"gpubuild/toolchain/install/redist"
	"gpubuild/toolchain/install/wheel"
)

// NoPipError is the error for which a caller falls back to the redistributables.
type NoPipError = wheel.NoPipError

// NoFitError says that no pinned set may be used here, and why each one lost.
type NoFitError struct {
	Platform string
	Want     Want
	Newest   gpu.Version // that can be fetched; zero: not known
	Pinned   []string    // what pip can fetch
	Losers   []string    // one line a set
}

func (e *NoFitError) Error() string {
	what := "no CUDA toolkit to fetch"
	if !e.Want.Exact.IsZero() {
		what = "no CUDA " + e.Want.asked() + " to fetch"
	}
	if len(e.Losers) == 0 {
		return what + " for " + e.Platform
	}
	return what + " for " + e.Platform + ":\n  " + strings.Join(e.Losers, "\n  ")
}

// ExitCode is exit.Usage for a version that is nowhere, and exit.Misfit for one that something here does not allow.
func (e *NoFitError) ExitCode() int {
	if exact := e.Want.Exact; !exact.IsZero() && (e.Want.MaxVersion.IsZero() || exact.Compare(e.Want.MaxVersion) <= 0) {
		return exit.Usage
	}
	return exit.Misfit
}

func (e *NoFitError) Hint() string {
	exact, limit := e.Want.Exact, e.Want.MaxVersion
	switch {
	case !limit.IsZero() && exact.Compare(limit) > 0:
		return fmt.Sprintf("ask for CUDA %s or older, or update the driver and the crates that set this limit", limit)
	case !limit.IsZero() && limit.Major < 13:
		return fmt.Sprintf("fetch CUDA %s from NVIDIA's redistributable archives (gpubuild toolchain install %[1]s), "+
			"install it by NVIDIA's installer and name it with --gpu-toolkit, or update the driver", limit)
	case !exact.IsZero() && !e.Newest.IsZero() && len(e.Losers) == 0:
		return fmt.Sprintf("the newest is CUDA %s: gpubuild toolchain install %[1]s", e.Newest)
	case len(e.Losers) == 0:
		return "install CUDA by NVIDIA's installer and name its directory with --gpu-toolkit"
	}
	if e.Want.Refuses != nil && !e.Newest.IsZero() {
		return fmt.Sprintf("change what the newest line says; `gpubuild toolchain install %s` installs that one all the same", e.Newest)
	}
	return "ask for one of the versions listed"
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
	var wheels, archives *NoFitError
	if errors.As(e.First, &wheels) && errors.As(e.Err, &archives) && len(wheels.Losers)+len(archives.Losers) == 0 {
		return e.First.Error() // neither has such a version
	}
	var fetch *redist.FetchError
	if errors.As(e.First, &wheels) && len(wheels.Losers) == 0 && errors.As(e.Err, &fetch) && fetch.Offline {
		return fmt.Sprintf("%v\n  pip has %s\n  NVIDIA's redistributable archives, which have others, cannot be reached: %s",
			e.First, cmp.Or(strings.Join(wheels.Pinned, ", "), "none"), fetch.Address)
	}
	return e.First.Error() + "\nand of NVIDIA's redistributable archives: " + e.Err.Error()
}

func (e *RedistError) Unwrap() []error { return []error{e.First, e.Err} }

// ExitCode is that of what the archives answered: where they cannot be reached, nothing is known of the version.
func (e *RedistError) ExitCode() int { return exit.Of(e.Err) }

func (e *RedistError) Hint() string {
	var none, wheels *NoFitError
	var hinted interface{ Hint() string }
	if errors.As(e.Err, &none) && len(none.Losers) == 0 && e.First != nil && errors.As(e.First, &hinted) || errors.As(e.Err, &hinted) {
		if errors.As(e.First, &wheels) && len(wheels.Losers) == 0 && none == nil {
			return "ask for one that pip has; or " + hinted.Hint()
		}
		return hinted.Hint()
	}
	return "name another place by --redist or GPUBUILD_REDIST"
}
