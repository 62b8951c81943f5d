package toolchain

import (
	"fmt"

	"gpubuild/gpu"
	"gpubuild/toolchain/cuda"
	"gpubuild/toolchain/cudnn"
	"gpubuild/toolchain/hostcc"
)

// Planned is a machine that is not here, such as a runner of CI, and what is to be built on it.
type Planned struct {
	CUDA      gpu.Version
	Arch      gpu.Capability    // zero: not said
	Compilers []hostcc.Compiler // those that are known to be there; nil: not known, and not judged
	CUDNN     string            // version of the cuDNN that will be there; empty: not judged
	Driver    gpu.Driver
}

// Judge says why a build on a planned machine cannot work; empty: nothing that is known speaks against it. The checks are those of
// Choose, on what is published of the toolkit: the installed header may still say otherwise.
func (p Planned) Judge(n Needs) (why string, err error) {
	t, known, err := cuda.Published(p.CUDA)
	if err != nil {
		return "", err
	}
	if !known {
		return fmt.Sprintf("CUDA %s is no release that gpubuild knows", p.CUDA), nil
	}
	f := Facts{Toolkits: []cuda.Toolkit{t}, Compilers: p.Compilers, Driver: p.Driver}
	if p.Compilers == nil {
		n.HostCompiler = false
		f.Compilers = []hostcc.Compiler{{Path: "any", Kind: hostcc.GCC}} // of no version: every bound takes it
	}
	if p.CUDNN == "" {
		n.CUDNN = false
	} else {
		i, err := cudnn.Published(p.CUDNN, p.CUDA.Major)
		if err != nil {
			return "", err
		}
		f.CUDNN = []cudnn.Install{i}
	}
	tr := try(f, n, Wish{}, &t, p.Arch)
	if tr.why == "" || len(tr.losers) == 0 {
		return tr.why, nil
	}
	return tr.losers[0].Where + ": " + tr.losers[0].Why, nil
}
