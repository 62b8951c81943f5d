// Package libtorch decides where torch-sys finds libtorch, as its build script does (0.26.0 build.rs, SystemInfo::new and
// prepare_libtorch_dir). It asks no Python and reads no library.
package libtorch

import "gpubuild/buildenv"

// Place is where a build script of torch-sys takes libtorch from.
type Place struct {
	Python bool   // LIBTORCH_USE_PYTORCH is set, be it empty: the PyTorch that python3 imports
	Root   string // with include, lib and build-version; empty: the script downloads one into its OUT_DIR, or stops
	Lib    string // with the libraries; empty: not known before the download
	How    string // what names Lib
}

// Find follows the variables of env. On Linux a libtorch in /usr/lib is taken where LIBTORCH is not set.
func Find(h buildenv.Host, env buildenv.Env) Place {
	if _, python := env.Lookup("LIBTORCH_USE_PYTORCH"); python {
		return Place{Python: true, How: "LIBTORCH_USE_PYTORCH"}
	}
	var p Place
	if root, named := env.Lookup("LIBTORCH"); named {
		p = Place{Root: root, Lib: h.Join(root, "lib"), How: "LIBTORCH"}
	} else if h.OS == buildenv.Linux && h.IsFile("/usr/lib/libtorch.so") {
		p = Place{Root: "/usr", Lib: "/usr/lib", How: "the system's libtorch"}
	}
	if lib, named := env.Lookup("LIBTORCH_LIB"); named {
		p.Lib, p.How = h.Join(lib, "lib"), "LIBTORCH_LIB"
	}
	return p
}
