package local

import (
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/windows"
	winreg "golang.org/x/sys/windows/registry"
)

func kernel() string {
	v := windows.RtlGetVersion()
	return fmt.Sprintf("%d.%d.%d", v.MajorVersion, v.MinorVersion, v.BuildNumber)
}

func terminal(f *os.File) bool {
	var mode uint32
	return windows.GetConsoleMode(windows.Handle(f.Fd()), &mode) == nil
}

// width is not asked for: a console needs a mode of its own for the colours that cargo writes into a pipe, and that is not tried.
func width(*os.File) int { return 0 }

// registry reads the real one. The errors of x/sys are syscall.Errno and mean fs.ErrNotExist and fs.ErrPermission by themselves.
type registry struct{}

func open(key string, view int) (winreg.Key, error) {
	root, rest, _ := strings.Cut(key, `\`)
	access := uint32(winreg.READ)
	switch view {
	case 32:
		access |= winreg.WOW64_32KEY
	default:
		access |= winreg.WOW64_64KEY
	}
	k, err := winreg.OpenKey(roots(root), rest, access)
	if err != nil {
		return 0, &fs.PathError{Op: "open key", Path: key, Err: err}
	}
	return k, nil
}

func roots(name string) winreg.Key {
	switch strings.ToUpper(name) {
	case "HKLM", "HKEY_LOCAL_MACHINE":
		return winreg.LOCAL_MACHINE
	case "HKCU", "HKEY_CURRENT_USER":
		return winreg.CURRENT_USER
	case "HKCR", "HKEY_CLASSES_ROOT":
		return winreg.CLASSES_ROOT
	case "HKU", "HKEY_USERS":
		return winreg.USERS
	case "HKCC", "HKEY_CURRENT_CONFIG":
		return winreg.CURRENT_CONFIG
	}
	return 0 // no key: opening below it answers "not found" or "invalid handle"
}

func (registry) String(key, value string, view int) (string, error) {
	k, err := open(key, view)
	if err != nil {
		return "", err
	}
	defer k.Close()
	s, kind, err := k.GetStringValue(value)
	if err == winreg.ErrUnexpectedType && (kind == winreg.DWORD || kind == winreg.QWORD) {
		var n uint64
		if n, _, err = k.GetIntegerValue(value); err == nil {
			s = strconv.FormatUint(n, 10)
		}
	}
	if err == nil && kind == winreg.EXPAND_SZ {
		s, err = winreg.ExpandString(s)
	}
	if err != nil {
		return "", &fs.PathError{Op: "read value", Path: key + `\` + value, Err: err}
	}
	return s, nil
}

func (registry) Keys(key string, view int) ([]string, error) {
	k, err := open(key, view)
	if err != nil {
		return nil, err
	}
	defer k.Close()
	names, err := k.ReadSubKeyNames(-1)
	if err != nil {
		return nil, &fs.PathError{Op: "list key", Path: key, Err: err}
	}
	return names, nil
}

func (registry) Values(key string, view int) ([]string, error) {
	k, err := open(key, view)
	if err != nil {
		return nil, err
	}
	defer k.Close()
	names, err := k.ReadValueNames(-1)
	if err != nil {
		return nil, &fs.PathError{Op: "list values", Path: key, Err: err}
	}
	return names, nil
}
