// Package nvcc is what answers when gpubuild is started under the name nvcc: a kernel cache in front of a real toolkit's nvcc, or a
// stand-in for nvcc that lets cargo type-check GPU code on a machine without a toolkit.
//
// The cache returns a stored result only where every input that can change the output is the same: the programs that take part,
// by content; the steps that `nvcc --dryrun` lists; the preprocessed text of every pass, the host's
// included; nvcc's and the compiler's own environment variables. Each call is preprocessed. The user's LD_LIBRARY_PATH changes nothing:
// what is cached is compiled without it. A command line with anything in it that this package does not know runs the real nvcc, uncached.
//
// What is not known yet is compiled by the steps of --dryrun, of the very text that is in the key: all that is kept is made in this way.
// Where a step fails the real nvcc runs, which says why and leaves what it leaves. The assembler lists what it reads: what inline assembly
// includes is in no key, and such an object is not kept.
//
// A call of a build script leaves a record of what it read, of the host compiler's programs that ran, of what was missing, and of what it
// made, next to OUT_DIR. An input that can be read only once is nvcc's alone; a FIFO that a
// source includes fails the call. The record misses headers whose names a macro puts together
// for __has_include. The shared libraries of programs, which are the system's, are in no key; gcc's plugins are not understood, so
// uncached.
package nvcc
