package cache

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/windows"
)

// TestWhoMayWrite: an access list that lets others write is refused; one that lets them read is not.
func TestWhoMayWrite(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	user, err := windows.GetCurrentProcessToken().GetTokenUser()
	if err != nil {
		t.Fatal(err)
	}
	everyone, err := windows.CreateWellKnownSid(windows.WinWorldSid)
	if err != nil {
		t.Fatal(err)
	}
	allow := func(sid *windows.SID, mask windows.ACCESS_MASK) windows.EXPLICIT_ACCESS {
		return windows.EXPLICIT_ACCESS{AccessPermissions: mask, AccessMode: windows.GRANT_ACCESS,
			Trustee: windows.TRUSTEE{TrusteeForm: windows.TRUSTEE_IS_SID, TrusteeValue: windows.TrusteeValueFromSID(sid)}}
	}
	for mask, want := range map[windows.ACCESS_MASK]string{
		windows.GENERIC_READ | windows.GENERIC_EXECUTE: "", windows.GENERIC_ALL: "S-1-1-0", windows.FILE_WRITE_DATA: "S-1-1-0",
	} {
		list, err := windows.ACLFromEntries([]windows.EXPLICIT_ACCESS{allow(user.User.Sid, windows.GENERIC_ALL), allow(everyone, mask)}, nil)
		if err == nil {
			err = windows.SetNamedSecurityInfo(dir, windows.SE_FILE_OBJECT,
				windows.DACL_SECURITY_INFORMATION|windows.PROTECTED_DACL_SECURITY_INFORMATION, nil, nil, list, nil)
		}
		if err != nil {
			t.Fatal(err)
		}
		err = Trusted(dir)
		var open *OpenError
		if want == "" && err != nil || want != "" && (!errors.As(err, &open) || !strings.Contains(open.Why, want) || !strings.Contains(open.Hint(), "icacls")) {
			t.Errorf("%#x: got %v, want %q", mask, err, want)
		}
	}
}
