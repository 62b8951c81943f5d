// Package features answers what a cargo command line links: which GPU crates, with which features, and what these need.
//
// Gather reads cargo's unit graph and metadata, which files packages have, and of scripts only what a build needs. Judge decides from these
// facts alone: what is on by the graph, what the request turns on by the edges of its features, and by the first rule that applies what is
// missing, where the edge belongs, what the build needs and which build scripts depend on the toolchain.
//
// Cargo is the authority: manifests read here only show where a line is, and stand in where cargo gives no metadata. Nothing here runs a
// process or writes a file; every read goes through buildenv.Host.
// A crate that no catalog knows may bring GPU code or not: package pipeline looks at what was built.
package features
