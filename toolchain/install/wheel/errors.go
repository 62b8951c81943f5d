package wheel

import (
	"errors"
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

func (e *NoPipError) ExitCode() int { return exit.Missing }

func (e *NoPipError) Hint() string {
	return "let GPUBUILD_REDIST be, and NVIDIA's redistributable archives are taken; " +
		"or install pip (Debian and Ubuntu: apt install python3-pip) " +
		"or, where CUDA is installed already, name its directory with --gpu-toolkit"
}

// kind is why pip could not fetch, as far as its output shows.
type kind string

const (
	network kind = "no network"
	absent  kind = "not on the package index"
	space   kind = "disk full"
	policy  kind = "pip's own configuration forbids it"
)

// fixes say what a user can do about it.
var fixes = map[kind]string{
	"":      "pip's message says what is wrong; what was fetched already is kept, so run the same command again",
	network: "check the network, HTTPS_PROXY and pip's index-url; what was fetched already is kept, so run the same command again",
	absent:  "the mirror that pip uses lacks this file: set PIP_INDEX_URL to one that has NVIDIA's wheels",
	space:   "free some space, or set GPUBUILD_CACHE to a directory on a larger disk",
	policy:  "start gpubuild in a virtual environment, or unset PIP_REQUIRE_VIRTUALENV for this command",
}

// What pip and the libraries below it write, and what it means. Source: pip's _internal/exceptions.py and urllib3's messages.
var meanings = []struct {
	text string
	kind kind
}{
	{"No space left on device", space},
	{"There is not enough space on the disk", space},
	{"Disk quota exceeded", space},
	{"Could not find an activated virtualenv", policy},
	{"Temporary failure in name resolution", network},
	{"Name or service not known", network},
	{"getaddrinfo failed", network},
	{"nodename nor servname", network},
	{"Network is unreachable", network},
	{"No route to host", network},
	{"Connection refused", network},
	{"Connection reset", network},
	{"Max retries exceeded", network},
	{"ReadTimeoutError", network},
	{"ConnectTimeoutError", network},
	{"IncompleteRead", network},
	{"ProxyError", network},
	{"SSLError", network},
	{"NewConnectionError", network},
	{"No matching distribution", absent},
	{"Could not find a version", absent},
	{"404 Client Error", absent},
}

// failed says that pip could not fetch wheels, and what to do about it.
func failed(wheels []string, why kind, err error) error {
	what := "fetch " + strings.Join(wheels, ", ")
	if why != "" {
		what += ": " + string(why)
	}
	return exit.Errorf(0, fixes[why], "%s: %w", what, err)
}

// fetchError makes an error of what pip wrote.
func fetchError(wheels []tree.Archive, err error) error {
	var names []string
	for _, w := range wheels {
		names = append(names, w.String())
	}
	var ended *buildenv.ExitError
	if !errors.As(err, &ended) {
		return failed(names, "", err)
	}
	text := string(ended.Result.Stdout) + string(ended.Result.Stderr)
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
			return failed(names, m.kind, err)
		}
	}
	return failed(names, "", err)
}
