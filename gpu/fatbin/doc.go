// Package fatbin finds the device code that a file holds: fatbins, cubins and PTX text, at any byte of it, in whatever section or in none.
// It owns the reading of these formats. It runs nothing and needs no GPU; what it finds is static evidence: code that is there need not be
// called, and code that is made at run time (NVRTC, built PTX) or lies in a library is not there.
//
// Files are read in pieces, in bounded memory; sizes that a file claims are never trusted. What is malformed becomes a note.
//
// Debug information and symbol tables of an ELF file are passed over: they are not loaded, and nothing in them can be launched.
//
// Not read: 32-bit cubins, fatbins in the style of CUDA 3 and before (magic
// 0x1EE55A01), device code inside compressed sections or packed executables.
//
// Sources: fatbin and entry headers DataDog/datadog-agent pkg/gpu/cuda/fatbin.go, vosen/ZLUDA cuda_types/src/dark_api.rs; e_flags LLVM
// llvm/BinaryFormat/ELF.h (EF_CUDA_*); concatenated entries, suffix flags, tkinfo: read off what nvcc 13.4.92 writes.
package fatbin
