// Package features answers what a cargo command line links: which GPU crates, with which features, and what these need.
//
// Judge takes what is on from cargo's unit graph, follows the edges of the requested features in cargo's metadata, and answers by eight
// rules what is enabled and what is not, where the missing edge belongs, what the build needs and which build scripts depend on the
// toolchain.
//
// Cargo is the authority: manifests read here only show where a line is, and stand in where cargo gives no metadata. Nothing here runs a
// process or writes a file; every read goes through buildenv.Host.
// A crate that no catalog knows is judged by its build dependencies and by what its own sources gate.
package features
