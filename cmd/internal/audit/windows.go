package audit

import (
	"cmp"
	"debug/pe"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/lazyregexp"
	"gpubuild/buildenv/pefile"
	"gpubuild/gpu/verify"
)

const driverDLL = "nvcuda.dll"

// before returns a driver that a program would load instead of one on PATH. Source: "Dynamic-link library search order", Microsoft Learn:
// standard search order for unpackaged apps, safe search mode.
func before(h buildenv.Host, o Options) error {
	root := cmp.Or(h.Env.Get("SystemRoot"), `C:\Windows`)
	cwd, err := os.Getwd()
	if err != nil {
		return err
	}
	for _, dir := range []string{h.Dir(o.Binary), h.Join(root, "System32"), h.Join(root, "System"), root, cwd} {
		if p := h.Join(dir, driverDLL); h.IsFile(p) {
			return exit.Errorf(exit.Unproved, "audit where no NVIDIA driver is installed, as on a CI machine without a GPU, or on Linux, "+
				"where the failing driver comes first",
				"%s is found before the failing driver: Windows looks at a program's own directory, its own system directories "+
					"and the current directory before PATH", p)
		}
	}
	return nil
}

// insufficientDriver is what NVIDIA's run-time library answers where there is no driver: cudaErrorInsufficientDriver, driver_types.h.
const insufficientDriver = 35

// notPE matches debug/pe's error for a file that is no program, such as a batch file.
var notPE = lazyregexp.New(`^unrecognized PE machine|^invalid COFF|fail to read`)

// peImports are the functions and libraries that a Windows program names.
// debug/pe is not made for hostile files: its panics are errors here.
func peImports(binary string) (out imports, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%s: not a sound program: %v", binary, p)
		}
	}()
	f, err := pe.Open(binary)
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), err != nil && notPE.MatchString(err.Error()):
		return out, nil
	case err != nil:
		return out, err
	}
	defer f.Close()
	symbols, err := f.ImportedSymbols()
	if err != nil {
		return out, fmt.Errorf("%s: %w", binary, err)
	}
	for _, s := range symbols {
		name, _, _ := strings.Cut(s, ":") // function:library
		out.functions = append(out.functions, name)
	}
	libraries, err := pefile.ReadImports(f)
	if err != nil {
		return out, fmt.Errorf("%s: %w", binary, err)
	}
	out.libraries = append(libraries.Needed, libraries.Delayed...)
	return out, nil
}

// What Windows ends a process with (ntstatus.h, delayimp.h).
const (
	dllNotFound       = 0xC0000135
	entryNotFound     = 0xC0000139
	dllInitFailed     = 0xC0000142 // as of the nvcuda.dll of no-library, which a program loads at its start
	failFast          = 0xC0000409 // Rust's abort, C's where the C library is Microsoft's
	delayedNoModule   = 0xC06D007E
	delayedNoFunction = 0xC06D007F
)

// windowsEnding goes by the status: a program's own is small, an exception's begins with C.
func windowsEnding(code uint32) endKind {
	switch {
	case code == entryNotFound, code == delayedNoFunction:
		return lacking
	case code == failFast:
		return aborted
	case code == dllNotFound, code == dllInitFailed, code == delayedNoModule, code < 0xC0000000:
		return left
	}
	return crashed
}

func windowsHow(code uint32) string {
	switch code {
	case dllNotFound, dllInitFailed, delayedNoModule:
		return fmt.Sprintf("could not go on without a library (0x%08X)", code)
	}
	s := verify.Exit{Code: int(code)}.String()
	if code >= 0xC0000000 && !strings.Contains(s, "0x") {
		return fmt.Sprintf("was ended by Windows (0x%08X)", code)
	}
	return strings.Replace(s, "with status ", "with ", 1)
}
