package toolchain

import (
	"fmt"
	"unicode/utf8"

	"gpubuild/buildenv"
	"gpubuild/gpu"
	"gpubuild/toolchain/cuda"
)

// letters asks whether nvcc can read its own path. nvcc.exe is a program of the machine's code page: below a directory with another
// letter 13.4.92 ends with 5 and not one word (seen under Wine, in code page 1252 below a Cyrillic name; below one with an umlaut, which
// 1252 has, it compiles).
func letters(f Facts, n Needs, t *cuda.Toolkit, _ gpu.Capability) verdict {
	if !n.NVCC && !n.NVCCVersion {
		return verdict{}
	}
	letter := f.CodePage.Lacks(t.NVCC)
	if letter == "" {
		return verdict{}
	}
	return verdict{
		why: fmt.Sprintf("its nvcc.exe cannot run: it reads paths in this machine's code page %d, which has no %s", f.CodePage, letter),
		fix: "use a toolkit below a directory of plain letters; for one that gpubuild fetched: " + cacheFix,
	}
}

const cacheFix = `set GPUBUILD_CACHE=C:\gpubuild (or another directory of plain letters) and run it again`

// InCache refuses a toolkit that gpubuild would put below its cache where nvcc.exe could not run.
func InCache(h buildenv.Host, cacheDir string) error {
	page := h.CodePage()
	letter := page.Lacks(cacheDir)
	if letter == "" {
		return nil
	}
	return &MisfitError{
		What: fmt.Sprintf(
			"a toolkit in gpubuild's cache, %s, could not run: nvcc.exe reads paths in this machine's code page %d, which has no %s",
			cacheDir, page, letter,
		),
		Fix: cacheFix,
	}
}

// most is how many characters of PATH leave room for what cargo and nvcc put before it. nvcc starts cl.exe through cmd.exe, which hands on
// no variable of more than 8191 ("Command prompt line string limitation", Microsoft, KB 830473): with a longer PATH it finds no cl.exe.
const most = 7000

// Unreadable lists what of the environment nvcc on Windows cannot take: directories that it has to read and write but whose names its code
// page cannot express, and a PATH that is too long. Nil outside Windows.
func Unreadable(h buildenv.Host, n Needs, targetDir string) (notes []string) {
	page := h.CodePage()
	if !n.NVCC {
		return nil
	}
	for _, d := range []struct{ what, path, fix string }{
		{"the target directory", targetDir, `set CARGO_TARGET_DIR=C:\target`},
		{"the directory for temporary files", h.Env.Get("TMP"), `set TMP=C:\tmp`},
	} {
		if letter := page.Lacks(d.path); letter != "" {
			notes = append(notes, fmt.Sprintf(
				"%s is %s, and nvcc.exe reads paths in code page %d, which has no %s: where it fails, %s (or another "+
					"directory of plain letters)",
				d.what, d.path, page, letter, d.fix,
			))
		}
	}
	if size := utf8.RuneCountInString(h.Env.Get("PATH")); h.OS == buildenv.Windows && size > most {
		notes = append(notes, fmt.Sprintf("PATH has %d characters, and nvcc starts cl.exe through cmd.exe, "+
			"which hands on no more than 8191: "+
			"if nvcc finds no cl.exe, take directories out of PATH", size))
	}
	return notes
}
