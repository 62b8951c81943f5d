package buildenv

// Kind is a kind of file that gpubuild reads whole.
type Kind struct {
	// Names are the paths at which a repository has files of this kind, from a directory that cargo looks at; none: it has any name.
	Names []string
	Most  int64 // bytes
	// System is set for a path that gpubuild itself names, below /proc or /sys: such a file has no size.
	System bool
	// Cargos is set where cargo fails at a directory of that name. Rustup passes over one.
	Cargos bool
}

// The kinds of files that gpubuild reads. Of a file that it only hashes, it reads as many bytes as the file has (cache.Hash).
var (
	Manifest = Kind{Names: []string{ManifestFile, "gpubuild.toml"}, Most: 4 << 20, Cargos: true}
	Lock     = Kind{Names: []string{"Cargo.lock"}, Most: 64 << 20, Cargos: true}
	// Of two names cargo and rustup take the first one only.
	Config    = Kind{Names: []string{".cargo/config", ".cargo/config.toml"}, Most: 1 << 20, Cargos: true}
	Toolchain = Kind{Names: []string{"rust-toolchain", "rust-toolchain.toml"}, Most: 1 << 20}
	// Source is a file of which the text is read: a build script and its modules, CMake's files.
	Source = Kind{Names: []string{"build.rs", "CMakeLists.txt", ".gitmodules"}, Most: 4 << 20}
	// Root is the first file of a crate, which rustc reads whole. Of a library only as much as of a Source is read here.
	Root = Kind{Names: []string{"src/lib.rs", "src/main.rs"}, Most: 64 << 20}
	// Record is a file of gpubuild's in a target directory, a toolkit or a bundle.
	Record = Kind{Most: 16 << 20}
	// Printed is what a build script printed, as cargo stores it: bindgen's warnings can take megabytes.
	Printed = Kind{Most: 64 << 20}
	// Entry is a file in gpubuild's cache.
	Entry = Kind{Most: 256 << 20}
	// Note is a short text of a tool's or of the user's: a header, a version, settings.
	Note = Kind{Most: 1 << 20}
	// Program is a program, a library or an object.
	Program = Kind{Most: 1 << 30}
	// Log is what `explain` is given.
	Log    = Kind{Most: 1 << 30}
	System = Kind{Most: 64 << 20, System: true}
)

// Kinds lists all of them.
func Kinds() []Kind {
	return []Kind{Manifest, Lock, Config, Toolchain, Source, Root, Record, Printed, Entry, Note, Program, Log, System}
}
