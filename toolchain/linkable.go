package toolchain

import (
	"slices"
	"strings"

	"gpubuild/buildenv"
)

// LinkFix is what brings the libraries that Unlinkable misses.
const LinkFix = "`gpubuild --gpu-toolkit=fetch …` brings a toolkit with link stubs of them; or install that toolkit's libraries " +
	"(Debian, Ubuntu: cuda-libraries-dev)"

// Unlinkable lists those of the libraries that a program is to be linked with (libcublas) of which the linker will find no file: in the
// chosen toolkit and cuDNN, in LIBRARY_PATH of env, the build's environment, or where a linker looks by itself. Without it cargo compiles
// everything before the linker says so. Where rustc's flags name directories of the user's own nothing is known, and nothing listed.
func Unlinkable(h buildenv.Host, s Set, env buildenv.Env, libraries []string) []string {
	if s.Toolkit == nil || h.OS != buildenv.Linux && h.OS != buildenv.Windows {
		return nil
	}
	for _, name := range env.Names() { // RUSTFLAGS, CARGO_ENCODED_RUSTFLAGS, CARGO_BUILD_RUSTFLAGS, CARGO_TARGET_…_RUSTFLAGS
		if (strings.HasSuffix(name, "RUSTFLAGS") || name == "NIX_LDFLAGS") && strings.Contains(env.Get(name), "-L") {
			return nil
		}
	}
	t := s.Toolkit
	dirs := append([]string{t.Lib, t.Stubs, h.Join(t.Root, "lib64"), h.Join(t.Root, "lib"), h.Join(t.Root, "lib", "x64")}, t.Libs...)
	if s.CUDNN != nil {
		dirs = append(dirs, s.CUDNN.Lib)
	}
	if s.LibCUDA != "" {
		dirs = append(dirs, h.Dir(s.LibCUDA))
	}
	if h.OS == buildenv.Linux {
		dirs = append(dirs, h.SplitList(env.Get("LIBRARY_PATH"))...)
		dirs = append(
			dirs,
			"/usr/lib64",
			"/usr/lib",
			"/lib64",
			"/lib",
			"/usr/local/lib64",
			"/usr/local/lib",
			"/usr/lib/x86_64-linux-gnu",
			"/usr/lib/aarch64-linux-gnu",
			"/usr/lib/wsl/lib",
		)
	} else {
		dirs = append(dirs, h.SplitList(env.Get("LIB"))...)
	}
	var out []string
	for _, l := range libraries {
		files := []string{l + ".so", l + ".a"}
		if h.OS == buildenv.Windows {
			files = []string{strings.TrimPrefix(l, "lib") + ".lib"}
		}
		found := slices.ContainsFunc(dirs, func(dir string) bool {
			return dir != "" && slices.ContainsFunc(files, func(f string) bool { return h.IsFile(h.Join(dir, f)) })
		})
		if !found {
			out = append(out, files[0])
		}
	}
	return out
}
