package tree

import (
	"fmt"

	"gpubuild/buildenv/cache"
	"gpubuild/buildenv/exit"
)

// Archive is one file that goes into a toolkit: a pinned wheel, or an archive of NVIDIA's redistributables.
type Archive struct {
	Part     string `toml:"-"` // nvcc
	Package  string `toml:"-"` // nvidia-cuda-nvcc; cuda_nvcc
	Licence  string `toml:"-"` // key of the catalog's licences
	Version  string `toml:"version"`
	Size     int64  `toml:"size"`     // bytes to fetch
	Unpacked int64  `toml:"unpacked"` // bytes on disk
	SHA256   string `toml:"sha256"`
	File     string `toml:"file"`
	Path     string `toml:"-"` // of a redistributable: from the server's root; empty: a wheel
}

func (a Archive) String() string { return a.Package + " " + a.Version }

// Check compares a file with the archive's hash.
func (a Archive) Check(path string) error {
	got, err := cache.Hash(path)
	if err != nil {
		return err
	}
	if got != a.SHA256 {
		return &HashError{File: path, Want: a.SHA256, Got: got}
	}
	return nil
}

const (
	maxEntries = 200_000
	// margin is what a wheel may unpack to beyond its pin: the limit is there to stop a bomb, not to count bytes.
	margin = 1 << 20
)

// limit is how many bytes the archive's entries may have.
func (a Archive) limit() uint64 {
	if a.Path != "" { // the index does not say; nothing useful compresses better than this with xz
		return uint64(a.Size)*100 + 64<<20
	}
	return uint64(a.Unpacked) + margin
}

func (a Archive) tooLarge() string {
	if a.Path != "" {
		return fmt.Sprintf("more than %s, which no honest archive of %s holds", Size(int64(a.limit())), Size(a.Size))
	}
	return fmt.Sprintf("more than %s, the most that it may hold", Size(int64(a.limit())))
}

// Size formats a number of bytes for people.
func Size(n int64) string {
	switch {
	case n >= 1e9:
		return fmt.Sprintf("%.2f GB", float64(n)/1e9)
	case n >= 1e6:
		return fmt.Sprintf("%.0f MB", float64(n)/1e6)
	case n >= 1e3:
		return fmt.Sprintf("%.0f kB", float64(n)/1e3)
	}
	return fmt.Sprintf("%d bytes", n)
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

func (e *HashError) Hint() string {
	return "the file was damaged on its way or replaced by a mirror: run the same command again, " +
		"then try another index (PIP_INDEX_URL, GPUBUILD_REDIST)"
}

// archiveError says that an archive, or one entry of it, may not or cannot be unpacked.
func archiveError(archive, entry, why string, err error) error {
	if entry != "" {
		archive += fmt.Sprintf(": entry %.200q", entry)
	}
	const fix = "nothing was installed; remove the file and run the same command again"
	if err != nil {
		return exit.Errorf(0, fix, "%s: %s: %w", archive, why, err)
	}
	return exit.Errorf(0, fix, "%s: %s", archive, why)
}
