// Package features answers what a cargo command line links: which GPU crates, with which features, and what these need.
//
// Judge compares cargo's answer (package graph) with the manifests, the sources and the catalog of GPU crates and says what is enabled,
// what is not, where the missing edge belongs, what the build needs and which build scripts depend on the toolchain. Routes finds command
// lines that would do without an edit. EdgeCheck is what manifests alone can show.
//
// Cargo is the authority: the manifests only explain. Nothing here runs a process or writes a file; every read goes through buildenv.Host.
// A crate that no catalog knows is judged by its build dependencies and by what its own sources gate.
package features
