// Package verify runs a program under gpu/probe and judges whether its kernel ran on a GPU.
//
// Run gathers Evidence: first the positive control, then the program, in one environment, while the tree of its processes is looked at
// through /proc; where nothing matched the control runs once more, because the verdict then hangs on silence. Judge is pure: Evidence and
// Rules in, Verdict out. Nothing is averaged: one piece of evidence against is enough to keep a program from being called Proved, and
// silence counts only where everything was seen.
//
// What is claimed: by the CUDA driver's own records, a kernel of that name ran on that device in a process whose executable is the given
// file. What is not: that the program is honest. A program that wants to deceive can write its own records into the directory that
// GPUBUILD_PROBE_DIR names; the rules guard against accident. Only Linux can be watched so far.
//
// Vulkan's evidence (vulkan.go) is of the same kind. There any compute pipeline of the program's own counts unless one is named, and what
// ran on a software rasteriser ran on the CPU.
package verify
