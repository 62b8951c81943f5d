// Package hostcc finds host compilers: the gcc or clang that nvcc calls for the host's half of a CUDA source.
//
// It decides which compilers there are, how old they are, whether each can compile C++ at all
// (nvcc needs g++, not only gcc), which one nvcc takes by default, and
// which ones the user named. It does not know what nvcc accepts: that is read from the toolkit.
//
// Microsoft's cl is a Compiler, too, but is not looked for here: package msvc finds its toolsets by files alone.
//
// A version is taken from the file's real name where that is certain (Debian's x86_64-linux-gnu-gcc-12, LLVM's llvm-18/bin/clang), else
// the compiler is asked with a time limit. Cross compilers are left out.
package hostcc
