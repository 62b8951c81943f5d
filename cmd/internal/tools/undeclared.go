package tools

import (
	"cmp"
	"fmt"
	"slices"

	"gpubuild/buildenv"
	"gpubuild/cmd/internal/session"
	"gpubuild/features"
	"gpubuild/gpu"
	"gpubuild/toolchain"
	"gpubuild/toolchain/cuda"
)

// Undeclared is a package of the user's own that compiles kernels although nothing in the sources shows it, in a build of which no other
// package needs a toolkit. The zero value is none.
type Undeclared struct {
	Package string
	Why     string     // how it is known
	Archs   []gpu.Arch // for which its kernels were built; none: it is not known
	Named   bool       // gpubuild.toml names it
	Open    bool       // nothing is known of it but that CUDA was asked for: the build goes on without a toolkit
	Likely  bool       // … and its manifest or its files are those of a package that compiles kernels
	Quiet   bool       // … and nobody asked for CUDA: that there is no toolkit is no news
}

// asked is the flag or the variable with which the user asked for a toolkit or an architecture for this build; empty when there was none.
func (o Options) asked(h buildenv.Host) string {
	if cuda := h.Env.Get("GPUBUILD_CUDA"); o.Toolkit == "" && cuda != "" && cuda != "fetch" {
		return "GPUBUILD_CUDA"
	}
	return o.Requested()
}

// Requested is the flag that asks for a toolkit or an architecture for this build, so that there is GPU work. The variables may be set for
// every build of a machine, those of projects without a GPU among them; a wish for no toolkit is none.
func (o Options) Requested() string {
	switch {
	case o.Arch != "":
		return o.Prefix + "arch"
	case o.Toolkit != "" && o.Toolkit != None && o.Toolkit != "fetch":
		return o.Prefix + "toolkit"
	}
	return ""
}

// undeclared looks for such a package, and adds what it needs to what is known of the others.
func undeclared(s *session.Session, reach *features.Reach, n toolchain.Needs, o Options) (toolchain.Needs, Undeclared, error) {
	named := len(s.Config.GPUPackages.Value) > 0 && !n.NVCC
	open := cmp.Or(reach.Needs.Perhaps, reach.Undecided())
	if n.NVCC && (n.Libraries || reach.Needs.Perhaps == "") || o.Toolkit == None || o.Toolkit == "fetch" && reach.Needs.Perhaps == "" {
		open = ""
	}
	if n.Toolkit() && !named && open == "" || o.Undeclared == nil { // a toolkit is chosen anyway, or there is no project
		return n, Undeclared{}, nil
	}
	asked := o.asked(s.Machine.Host)
	u, err := o.Undeclared(asked)
	if err == nil && open != "" && !u.Named { // whatever its build scripts do, they find everything
		u.Package, u.Why = cmp.Or(u.Package, open), cmp.Or(u.Why, "what it compiles is known after the build")
		u.Open, u.Likely, u.Quiet = true, reach.Needs.Perhaps != "", !reach.AsksCUDA()
	}
	if err != nil || u.Package == "" || n.Toolkit() && !u.Named && !u.Open {
		return n, Undeclared{}, err
	}
	n.NVCC, n.Libraries = true, n.Libraries || u.Open
	n.EmbedsPTX = n.EmbedsPTX || u.Open && o.Toolkit == "fetch" // a toolkit that is as new as the driver does for everything
	n.Because = append(n.Because, fmt.Sprintf("nvcc: %s (%s)", u.Package, u.Why))
	// Which variables its script reads is not known. One that likely compiles kernels is given all. So is another one if the user asked
	// for a toolkit, unless a cudarc declares the roots' to cargo without reading them; otherwise only PATH is set, because setting the
	// others would rebuild what was built without them.
	if u.Likely && n.Reads != nil { // else the readers are not known, and all are set
		n.Reads = slices.Concat(n.Reads, cuda.RootVariables(), []string{"PATH", "NVCC", "CUDACXX", "CUDAHOSTCXX", "CUDA_COMPUTE_CAP"})
		return n, u, nil
	}
	if (asked != "" || u.Named || u.Open) && len(n.Reads) == 0 && len(reach.Cudarc) == 0 {
		return n, u, nil
	}
	n.Reads = append(n.Reads, "PATH")
	if arch, _ := toolchain.ArchWish(o.Arch, "", s.Machine.Host.Env, s.Config.Arch.Value, s.Config.Arch.Origin); arch != "" {
		n.Reads = append(n.Reads, "CUDA_COMPUTE_CAP")
	}
	return n, u, nil
}
