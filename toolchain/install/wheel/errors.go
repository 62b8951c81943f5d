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
		"or install pip (Debian and Ubuntu: apt install python3-pip; Windows: py -m ensurepip) " +
		"or, where CUDA is installed already, name its directory with --gpu-toolkit"
}

// failed says that pip could not fetch wheels, and what to do about it: pip's own words say which of these it is.
func failed(wheels []string, err error) error {
	return exit.Errorf(0, "check the network, HTTPS_PROXY, PIP_INDEX_URL (a mirror may lack NVIDIA's wheels), PIP_REQUIRE_VIRTUALENV and "+
		"the free space; what was fetched already is kept, so run the same command again", "fetch %s: %w", strings.Join(wheels, ", "), err)
}

// fetchError makes an error of what pip wrote.
func fetchError(wheels []tree.Archive, err error) error {
	var names []string
	for _, w := range wheels {
		names = append(names, w.String())
	}
	if ended, ok := errors.AsType[*buildenv.ExitError](err); ok {
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
	}
	return failed(names, err)
}
