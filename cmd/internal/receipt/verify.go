package receipt

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"

	"gpubuild/buildenv"
	"gpubuild/buildenv/cache"
	"gpubuild/gpu/verify"
)

// Sealed is a file's hash and its identity when the hash was taken.
type Sealed struct {
	SHA256 string
	Size   int64
	ID     cache.Identity
}

// Seal hashes a file that nobody writes to meanwhile.
func Seal(file string) (Sealed, error) {
	id, err := cache.Identify(file)
	if err != nil {
		return Sealed{}, err
	}
	sum, err := cache.Hash(file)
	if err != nil {
		return Sealed{}, err
	}
	now, err := cache.Identify(file)
	if err != nil {
		return Sealed{}, err
	}
	if now != id {
		return Sealed{}, fmt.Errorf("%s changed while it was read", file)
	}
	return Sealed{SHA256: sum, Size: id.Size, ID: id}, nil
}

// Real says which drivers count as real in an evidence.
type Real func(verify.Evidence) func(verify.Loaded) (bool, string)

// RealWhereRecorded judges drivers by the rules of the system where the evidence was recorded, wherever it is looked at.
func RealWhereRecorded(h buildenv.Host, real func(buildenv.Host) func(verify.Loaded) (bool, string)) Real {
	return func(e verify.Evidence) func(verify.Loaded) (bool, string) {
		recorded := h
		recorded.OS = cmp.Or(e.OS, buildenv.Linux)
		return real(recorded)
	}
}

// Verify returns what is wrong with a receipt, and which of several receipts in one file is the binary's. named says whether the user named
// the binary; else it is the receipt's own path.
func Verify(whole Receipt, binary string, named bool, real Real) ([]string, Receipt) {
	if whole.Binary.Path == "" {
		return whole.Check("", 0, real(whole.Evidence)), whole
	}
	var wrong []string
	is, err := Seal(binary)
	r := whole.Of(is.SHA256)
	if err != nil {
		wrong = append(wrong, fmt.Sprintf("the binary could not be looked at: %v", err))
		if !named {
			wrong = append(wrong, "give the binary behind the receipt; without it only the receipt's own path is looked at")
		}
		is = Sealed{SHA256: r.Binary.SHA256, Size: r.Binary.Size} // said once; the rest is checked all the same
	}
	wrong = append(wrong, whole.Check(is.SHA256, is.Size, real(r.Evidence))...)
	for _, also := range r.UsedFiles {
		if also.Host != "" {
			continue
		}
		now, err := Seal(also.Path)
		if also.Sent && errors.Is(err, fs.ErrNotExist) { // a receipt may be looked at without the data
			continue
		} else if err != nil {
			wrong = append(wrong, fmt.Sprintf("%s, which was used with it, could not be looked at: %v", also.Path, err))
		} else if now.SHA256 != also.SHA256 {
			wrong = append(wrong, fmt.Sprintf(
				"%s, which was used with it, is another one: SHA-256 %.16s…, the receipt is of %.16s…", also.Path,
				now.SHA256, also.SHA256))
		}
	}
	return wrong, r
}

// Unproven is the receipt of a program that was built and not run; without a path it is that of a build that made no program.
func Unproven(version string, b Binary, env buildenv.Env) Receipt {
	rules := verify.Rules{}
	e := verify.Evidence{Schema: 1, Binary: b.Path}
	return New(version, b, env, "", Ask(rules, false), e, verify.Judge(e, rules))
}
