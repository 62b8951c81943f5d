package cache

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"
	"unsafe"

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

// shared: a directory is the user's own or it is refused.
func shared(fs.FileInfo) string { return "" }

// trustedInstaller owns what Windows itself installs: Microsoft, "Service SIDs".
const trustedInstaller = "S-1-5-80-956008885-3418522649-1831038044-1853292631-2271478464"

// writes are the rights by which a file or what is in a directory can be changed or replaced (winnt.h).
const writes = windows.FILE_WRITE_DATA | windows.FILE_APPEND_DATA | 0x40 /* FILE_DELETE_CHILD */ | windows.DELETE |
	windows.WRITE_DAC | windows.WRITE_OWNER | windows.GENERIC_WRITE | windows.GENERIC_ALL

// writable reads the owner and the access list. Trusted are the user, administrators and the system.
func writable(path string, _ fs.FileInfo) (why, fix string) {
	fix = fmt.Sprintf(`icacls "%[1]s" /setowner "%%USERNAME%%" && icacls "%[1]s" /inheritance:r /grant:r "%%USERNAME%%:(OI)(CI)F"`, path)
	sd, err := windows.GetNamedSecurityInfo(path, windows.SE_FILE_OBJECT,
		windows.OWNER_SECURITY_INFORMATION|windows.DACL_SECURITY_INFORMATION)
	if err != nil {
		return fmt.Sprintf("has an access list that cannot be read (%v)", err), fix
	}
	owner, _, err := sd.Owner()
	if err != nil || !administers(owner) {
		return "belongs to another user", fix
	}
	list, _, err := sd.DACL()
	if err != nil || list == nil {
		return "may be written to by every user: it has no access list", fix
	}
	for i := range uint32(list.AceCount) {
		var entry *windows.ACCESS_ALLOWED_ACE
		if err := windows.GetAce(list, i, &entry); err != nil {
			return fmt.Sprintf("has an access list that cannot be read (%v)", err), fix
		}
		sid := (*windows.SID)(unsafe.Pointer(&entry.SidStart))
		if entry.Header.AceType == windows.ACCESS_ALLOWED_ACE_TYPE && entry.Header.AceFlags&windows.INHERIT_ONLY_ACE == 0 &&
			entry.Mask&writes != 0 && !administers(sid) {
			return "may be written to by " + sid.String(), fix
		}
	}
	return "", ""
}

func administers(sid *windows.SID) bool {
	user, err := windows.GetCurrentProcessToken().GetTokenUser()
	if err == nil && sid.Equals(user.User.Sid) || sid.String() == trustedInstaller {
		return true
	}
	for _, known := range []windows.WELL_KNOWN_SID_TYPE{
		windows.WinLocalSystemSid, windows.WinBuiltinAdministratorsSid, windows.WinCreatorOwnerSid, windows.WinCreatorOwnerRightsSid,
	} {
		if sid.IsWellKnown(known) {
			return true
		}
	}
	return false
}
