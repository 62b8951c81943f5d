package tools

import (
	"fmt"

	"gpubuild/buildenv"
	"gpubuild/cmd/internal/session"
	"gpubuild/features"
	"gpubuild/gpu"
	"gpubuild/toolchain"
)

// Undeclared is a package of the user's own that compiles kernels although nothing in the sources shows it, in a build of which no other
// package needs a toolkit. The zero value is none.
type Undeclared struct {
	Package string
	Why     string   // how it is known
	Arch    gpu.Arch // for which its kernels were built; zero: it is not known
}

// asked is the flag or the variable with which the user asked for a toolkit or an architecture for this build; empty when there was none.
func (o Options) asked(h buildenv.Host) string {
	switch cuda := h.Env.Get("GPUBUILD_CUDA"); {
	case o.Toolkit != "" && o.Toolkit != "fetch":
		return "--gpu-toolkit"
	case o.Toolkit == "" && cuda != "" && cuda != "fetch":
		return "GPUBUILD_CUDA"
	case o.Arch != "":
		return "--gpu-arch"
	}
	return ""
}

// undeclared looks for such a package, and adds what it needs to what is known of the others.
func undeclared(s *session.Session, reach *features.Answer, n toolchain.Needs, o Options) (toolchain.Needs, Undeclared, error) {
	if n.Toolkit() || o.Undeclared == nil { // a toolkit is chosen anyway, or there is no project
		return n, Undeclared{}, nil
	}
	asked := o.asked(s.Machine.Host)
	u, err := o.Undeclared(asked)
	if err != nil || u.Package == "" {
		return n, u, err
	}
	n.NVCC = true
	n.Because = append(n.Because, fmt.Sprintf("nvcc: %s (%s)", u.Package, u.Why))
	// Which variables its script reads is not known. Where the user asked for a toolkit all are set, unless a cudarc declares the roots'
	// to cargo without reading them; otherwise PATH alone leads there: what was built without the others would be built anew.
	if asked != "" && len(n.Reads) == 0 && len(reach.Cudarc) == 0 {
		return n, u, nil
	}
	n.Reads = append(n.Reads, "PATH")
	if arch, _ := toolchain.ArchWish(o.Arch, s.Machine.Host.Env, s.Config.Arch.Value, s.Config.Arch.Origin); arch != "" {
		n.Reads = append(n.Reads, "CUDA_COMPUTE_CAP")
	}
	return n, u, nil
}
