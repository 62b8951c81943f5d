package nvcc

import (
	"bytes"
	"encoding/binary"
	"os"
	"unicode/utf16"

	"golang.org/x/sys/windows"
)

// linkTo makes a directory that leads to another one: a junction (ntifs.h, REPARSE_DATA_BUFFER), for which an account needs no privilege.
// The target must be absolute and on a drive of this machine. A file of the toolkit's root is left out: nobody looks for one by its place.
func linkTo(target, at string) error {
	if fi, err := os.Stat(target); err != nil || !fi.IsDir() {
		return err
	}
	if err := os.Mkdir(at, 0o777); err != nil {
		return err
	}
	if err := junction(target, at); err != nil {
		_ = os.Remove(at) // the first error counts
		return err
	}
	return nil
}

func junction(target, at string) error {
	name, err := windows.UTF16PtrFromString(at)
	if err != nil {
		return err
	}
	h, err := windows.CreateFile(name, windows.GENERIC_WRITE, 0, nil, windows.OPEN_EXISTING,
		windows.FILE_FLAG_OPEN_REPARSE_POINT|windows.FILE_FLAG_BACKUP_SEMANTICS, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: at, Err: err}
	}
	defer func() { _ = windows.CloseHandle(h) }() // nothing was written by way of it
	data := mountPoint(target)
	var n uint32
	if err := windows.DeviceIoControl(h, windows.FSCTL_SET_REPARSE_POINT, &data[0], uint32(len(data)), nil, 0, &n, nil); err != nil {
		return &os.PathError{Op: "junction", Path: at, Err: err}
	}
	return nil
}

// mountPoint is the content of a junction: two names of its target, each with its place and length in bytes.
func mountPoint(target string) []byte {
	substitute, shown := utf16.Encode([]rune(`\??\`+target)), utf16.Encode([]rune(target))
	var names, b bytes.Buffer
	put := func(to *bytes.Buffer, v any) { _ = binary.Write(to, binary.LittleEndian, v) } // a buffer takes all
	put(&names, append(substitute, 0))
	put(&names, append(shown, 0))
	put(&b, uint32(windows.IO_REPARSE_TAG_MOUNT_POINT))
	put(&b, []uint16{uint16(8 + names.Len()), 0, 0, uint16(2 * len(substitute)), uint16(2*len(substitute) + 2), uint16(2 * len(shown))})
	b.Write(names.Bytes())
	return b.Bytes()
}
