package local

import "golang.org/x/sys/windows"

// FreeSpace answers the bytes that this user may still write to the file system of path; 0 when that is not known.
func FreeSpace(path string) uint64 {
	p, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return 0
	}
	var free uint64
	if windows.GetDiskFreeSpaceEx(p, &free, nil, nil) != nil {
		return 0
	}
	return free
}
