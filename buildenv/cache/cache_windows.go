package cache

import (
	"errors"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/windows"
)

func inode(path string, _ fs.FileInfo) (inode, device uint64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, 0, err
	}
	defer f.Close()
	var info windows.ByHandleFileInformation
	if err := windows.GetFileInformationByHandle(windows.Handle(f.Fd()), &info); err != nil {
		return 0, 0, &fs.PathError{Op: "identify", Path: path, Err: err}
	}
	return uint64(info.FileIndexHigh)<<32 | uint64(info.FileIndexLow), uint64(info.VolumeSerialNumber), nil
}

// rename tries for a moment when the old file is open elsewhere: a scanner or reader lets go of it soon.
func rename(from, to string) error {
	var err error
	for try := 0; try < 20; try++ {
		if err = os.Rename(from, to); !errors.Is(err, windows.ERROR_SHARING_VIOLATION) && !errors.Is(err, windows.ERROR_ACCESS_DENIED) {
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
	return err
}

func diskFull(err error) bool {
	return errors.Is(err, windows.ERROR_DISK_FULL) || errors.Is(err, windows.ERROR_HANDLE_DISK_FULL)
}

func readOnly(err error) bool { return errors.Is(err, windows.ERROR_WRITE_PROTECT) }

// openToAll: the mode says nothing on Windows, and the user's own directory is closed to others by its access list.
func openToAll(fs.FileInfo) bool { return false }
