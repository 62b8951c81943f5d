// Package toolchain chooses one set of toolkit, host compiler and cuDNN that fit together, the driver and the architecture, out of what its
// rooms found, and says what a build's environment must be for every consumer to use that set.
//
// Choose and Environment are pure: they read Facts and, for the rules of paths and links only, the Host. Every candidate that is not chosen
// stays in the answer with the reason why it lost. Nothing here ever adds -allow-unsupported-compiler: where a user's own flags lift nvcc's
// check, the answer says so.
//
// Limits: MSVC is not chosen yet (hostcc has its kind). A toolkit's link stubs are taken from the tree; that a driver's libcuda.so can be
// linked must be told in Facts.
package toolchain
