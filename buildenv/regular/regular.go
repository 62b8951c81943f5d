// Package regular opens files that somebody else may have put there: a regular file or a directory, and never a device, a pipe or a socket.
// It looks before it opens, because opening a device can do something, and once more at what it opened. It decides nothing about content.
//
// Limits: a driver or a file system of the kernel may call a device a regular file. Such a file has no size, so a reader that takes no more
// than the size is safe (buildenv.Host.ReadFile, cache.Hash); a read that would wait ends after Patience.
package regular

import (
	"io/fs"
	"os"
	"time"

	"gpubuild/buildenv"
)

// Patience is how long a read may wait. Only files of the kernel's, such as /proc/kmsg, wait at all.
const Patience = 100 * time.Millisecond

// Open opens a file for reading. What is no regular file and no directory is a *buildenv.UnboundedError; /dev/null is empty.
func Open(path string) (*os.File, error) {
	before, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if err := buildenv.Special(path, before); err != nil && !null(before) {
		return nil, err
	}
	f, err := open(path)
	if err != nil {
		return nil, err
	}
	after, err := f.Stat()
	if err == nil && !os.SameFile(before, after) { // replaced meanwhile
		err = buildenv.Special(path, after)
	}
	if err != nil {
		_ = f.Close() // nothing was written
		return nil, err
	}
	_ = f.SetReadDeadline(time.Now().Add(Patience)) // a file on a disk has none, and needs none
	return f, nil
}

func null(fi fs.FileInfo) bool {
	of, err := os.Stat(os.DevNull)
	return err == nil && os.SameFile(fi, of)
}
