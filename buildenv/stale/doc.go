// Package stale compares the inputs that a package's build script was run with to those that
// it would be run with now, and names the packages that cargo must clean so that they agree.
// It owns the format of the record. It deletes nothing, reads no file and runs nothing.
//
// Three answers are told apart for a unit: it agrees, it differs (with a reason for each
// input), or it is unknown, because nothing was recorded of it or its script has run
// since without us. Unknown is not fresh; what to do then is the caller's to decide.
//
// It also says whether device code that was read is what was asked for (Hold), which needs no record, and whether what lies in a
// build directory shows to have been built with the inputs of now (Adopt), where there is none.
//
// A change of an input that nobody records goes unnoticed. What a file's content is, is the caller's to say.
package stale
