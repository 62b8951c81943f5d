// Package cargo speaks cargo's language: it takes a command line apart exactly as cargo does, builds every cargo call that gpubuild makes
// as a value, and reads cargo's JSON messages.
//
// It decides which words belong to cargo and which to us, how a question about a build is put so that cargo answers for that very build,
// and how the question leaves the user's target directory and rustc's cache as they were. It never resolves features itself: cargo's unit
// graph does, and `cargo tree` where the graph is refused or unsafe.
//
// Limits: a flag that a later cargo adds passes untouched, but a value that follows it as a word of its own looks like a positional.
// Windows' and cargo's own files below target are read by nobody here; paths of messages are as cargo writes them.
//
// Facts about cargo carry the version they were observed with; "measured": with cargo 1.95.
package cargo
