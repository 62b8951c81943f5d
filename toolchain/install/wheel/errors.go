package wheel

import (
	"errors"
	"fmt"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
	"gpubuild/toolchain/install/tree"
)

// NoPipError says that none of the ways to start pip worked.
type NoPipError struct{ Tried []string }

func (e *NoPipError) Error() string {
	return "no pip to fetch the toolkit with (tried " + strings.Join(e.Tried, ", ") + ")"
}

// ExitCode is exit.Missing.
func (e *NoPipError) ExitCode() int { return exit.Missing }

// Hint says what a user can do about it.
func (e *NoPipError) Hint() string {
	return "let GPUBUILD_REDIST be, and NVIDIA's redistributable archives are taken; " +
		"or install pip (Debian and Ubuntu: apt install python3-pip) " +
		"or, where CUDA is installed already, name its directory with --gpu-toolkit"
}

// FetchError says that pip could not fetch wheels.
type FetchError struct {
	Wheels []string
	Kind   Kind
	Err    error
}

// Kind is why pip could not fetch, as far as its output shows.
type Kind string

// The known kinds.
const (
	Other   Kind = ""
	Network Kind = "no network"
	Absent  Kind = "not on the package index"
	Space   Kind = "disk full"
	Policy  Kind = "pip's own configuration forbids it"
)

func (e *FetchError) Error() string {
	what := "fetch " + strings.Join(e.Wheels, ", ")
	if e.Kind != Other {
		what += ": " + string(e.Kind)
	}
	return fmt.Sprintf("%s: %v", what, e.Err)
}

func (e *FetchError) Unwrap() error { return e.Err }

// Hint says what a user can do about it.
func (e *FetchError) Hint() string {
	switch e.Kind {
	case Network:
		return "check the network, HTTPS_PROXY and pip's index-url; what was fetched already is kept, so run the same command again"
	case Absent:
		return "the mirror that pip uses lacks this file: set PIP_INDEX_URL to one that has NVIDIA's wheels"
	case Space:
		return "free some space, or set GPUBUILD_CACHE to a directory on a larger disk"
	case Policy:
		return "start gpubuild in a virtual environment, or unset PIP_REQUIRE_VIRTUALENV for this command"
	}
	return "pip's message says what is wrong; what was fetched already is kept, so run the same command again"
}

// What pip and the libraries below it write, and what it means. Source: pip's _internal/exceptions.py and urllib3's messages.
var meanings = []struct {
	text string
	kind Kind
}{
	{"No space left on device", Space},
	{"There is not enough space on the disk", Space},
	{"Disk quota exceeded", Space},
	{"Could not find an activated virtualenv", Policy},
	{"Temporary failure in name resolution", Network},
	{"Name or service not known", Network},
	{"getaddrinfo failed", Network},
	{"nodename nor servname", Network},
	{"Network is unreachable", Network},
	{"No route to host", Network},
	{"Connection refused", Network},
	{"Connection reset", Network},
	{"Max retries exceeded", Network},
	{"ReadTimeoutError", Network},
	{"ConnectTimeoutError", Network},
	{"IncompleteRead", Network},
	{"ProxyError", Network},
	{"SSLError", Network},
	{"NewConnectionError", Network},
	{"No matching distribution", Absent},
	{"Could not find a version", Absent},
	{"404 Client Error", Absent},
}

// fetchError makes an error of what pip wrote.
func fetchError(wheels []tree.Archive, err error) error {
	failed := &FetchError{Err: err}
	for _, w := range wheels {
		failed.Wheels = append(failed.Wheels, w.String())
	}
	var exit *buildenv.ExitError
	if !errors.As(err, &exit) {
		return failed
	}
	text := string(exit.Result.Stdout) + string(exit.Result.Stderr)
	if strings.Contains(text, "THESE PACKAGES DO NOT MATCH THE HASHES") {
		wrong := wheels[0]
		for _, w := range wheels {
			if strings.Contains(text, w.SHA256) {
				wrong = w
			}
		}
		return &tree.HashError{File: wrong.File, Want: wrong.SHA256}
	}
	for _, m := range meanings {
		if strings.Contains(text, m.text) {
			failed.Kind = m.kind
			break
		}
	}
	return failed
}
