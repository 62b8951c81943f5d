// Package toolchain chooses one set of toolkit, host compiler, cuDNN, driver and architecture that work together, out of what its
// subpackages found, and says what a build's environment must be for every consumer to use that set.
//
// Choose and Environment are pure: they read Facts and, for the rules of paths and links only, the Host. Every candidate that is not chosen
// stays in the answer with the reason why it was rejected. Nothing here ever adds -allow-unsupported-compiler: where a user's own flags
// lift nvcc's check, the answer says so.
//
// Limits: A toolkit's link stubs are taken from the tree; whether a driver's libcuda.so can be linked is the caller's Facts.LibCUDA.
package toolchain
