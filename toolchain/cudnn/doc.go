// Package cudnn finds cuDNN: in toolkits, in the system's directories, where CUDNN_* variables point, in conda and pip environments.
//
// It decides which installs there are, their version and, where anything says so, the CUDA major that each was built for; it does not
// choose. The <M.m> directories of cuDNN's Windows installer and the cuda12 in an archive's name say what cuDNN was built with, never
// which toolkit the user has: only the major counts. It owns releases.toml.
//
// Limits: a cuDNN that was copied into a toolkit is taken to be for that toolkit's CUDA unless its version says otherwise.
package cudnn
