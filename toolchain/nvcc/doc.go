// Package nvcc is what answers when gpubuild is started under the name nvcc: a kernel cache in front of a real toolkit's nvcc, or a
// stand-in for nvcc that lets cargo type-check GPU code on a machine without a toolkit.
//
// The cache returns a stored result only where every input that can change the output is the same: the programs that take part and
// the shared libraries that they load, by content; the steps that `nvcc --dryrun` lists; the preprocessed text of every pass, the host's
// included; nvcc's and the compiler's own environment variables. The user's LD_LIBRARY_PATH changes nothing: what is cached is compiled
// without it. A command line with anything in it that this package does not know runs the real nvcc, uncached.
//
// What is not known yet is compiled by the steps of --dryrun, of the very text that is in the key. nvcc itself runs where these steps do
// not show everything (-MD, --threads, debug information), where the preprocessor says something, and where a signal ends a step.
//
// Not part of a key: a library that a program opens by itself (gcc's plugins are not understood, so uncached), and a file that inline
// assembly reads by a directive whose name is not spelled out in one piece.
package nvcc
