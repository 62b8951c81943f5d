package verify

import (
	"unsafe"

	"golang.org/x/sys/windows"
)

func systemDirectory() string {
	dir, err := windows.GetSystemDirectory()
	if err != nil {
		return ""
	}
	return dir
}

// signature asks Windows whether a file's own Authenticode signature is valid. Revocation is not asked for: that would go to the network.
// Two real drivers have no such signature, and are not proven: one that is signed by a catalog only, as NVIDIA's DLLs may be by nv_disp.cat
// (KhronosGroup/OpenCL-ICD-Loader issue 194), since no catalog was seen on a real Windows; and one whose root Windows has not fetched yet, as
// on a fresh machine without a network (learn.microsoft.com, WINTRUST_DATA: WTD_CACHE_ONLY_URL_RETRIEVAL).
func signature(path string) error {
	name, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return err
	}
	file := windows.WinTrustFileInfo{Size: uint32(unsafe.Sizeof(windows.WinTrustFileInfo{})), FilePath: name}
	data := windows.WinTrustData{
		Size:                            uint32(unsafe.Sizeof(windows.WinTrustData{})),
		UIChoice:                        windows.WTD_UI_NONE,
		RevocationChecks:                windows.WTD_REVOKE_NONE,
		UnionChoice:                     windows.WTD_CHOICE_FILE,
		FileOrCatalogOrBlobOrSgnrOrCert: unsafe.Pointer(&file),
		StateAction:                     windows.WTD_STATEACTION_VERIFY,
		ProvFlags:                       windows.WTD_CACHE_ONLY_URL_RETRIEVAL,
	}
	verdict := windows.WinVerifyTrustEx(windows.InvalidHWND, &windows.WINTRUST_ACTION_GENERIC_VERIFY_V2, &data)
	data.StateAction = windows.WTD_STATEACTION_CLOSE
	_ = windows.WinVerifyTrustEx(windows.InvalidHWND, &windows.WINTRUST_ACTION_GENERIC_VERIFY_V2, &data) // frees what the first call kept
	return verdict
}
