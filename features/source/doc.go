// Package source reads what Rust text and build scripts show: which code of a package a feature gates, what a build script runs and links,
// which libtorch one would find. Text is searched, not parsed; comments, string bodies and modules of tests do not count.
//
// Limits: what macro_rules! expand to is not read, so that code which only a
// macro gates goes unseen. Nothing here decides what a build needs.
package source
