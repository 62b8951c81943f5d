// Package features answers what a cargo command line links: which GPU crates, with which features, and what these need.
//
// It is the only reader of Cargo.toml. Load reads a workspace's manifests and Cargo.lock; Project.GPUWork is the quick look that decides
// whether gpubuild has anything to do; ParseGraph and ParseTree read what cargo itself says it will build; Judge puts both beside the
// catalog of GPU crates (crates.toml, embedded) and says what reaches, what does not, where the missing edge belongs, what the build
// needs and which build scripts depend on the toolchain.
//
// Cargo is the authority: the manifests only explain. Where cargo's unit graph and cargo tree disagree, the answer is Unsure, never a
// guess. Nothing here runs a process or writes a file; every read goes through buildenv.Host.
//
// Limits: registry and git packages are read where their sources lie (beside the unit's src_path, or below CARGO_HOME); a crate that no
// catalog knows is judged by its build dependencies and by what its own sources gate. Text is searched, not parsed: a macro_rules! that tests
// a feature counts where it is called, one of a registry's crate or a procedural macro that does so is not seen.
package features
