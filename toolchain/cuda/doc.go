// Package cuda finds CUDA toolkits: every tree that a variable, PATH or a usual place names, what each holds and what it lacks.
//
// It decides what is a toolkit, which version it is, which parts are missing and which host compilers its own header takes; it does not
// choose one. It never runs nvcc: a version is read from version.json, version.txt or cuda.h, and a candidate that cannot be used stays in
// the answer with a Problem, so that a user sees why it lost.
//
// It reads releases.toml, which it owns: what each published CUDA release compiles for. The installed crt/host_config.h is the authority on
// compilers (ParseHostConfig).
//
// Limits: Nix's split outputs and Spack's prefixes are found only where a variable or PATH names them. CUDA 12 wheels have no nvcc and no
// root of their own, so they are no toolkit here.
package cuda
