// Package loader finds, before a program is started, which shared libraries its loader will load and from where: what is missing, what
// is a link stub, and what is found only in directories that gpubuild adds.
//
// It follows ld.so(8) of glibc (RPATH, LD_LIBRARY_PATH, RUNPATH, ld.so.cache or ld.so.conf, default directories) and musl's loader, both
// held against the real ones on random trees; for Windows programs the search order of LoadLibrary (KnownDLLs, the program's, the
// system's, the Windows and the current directory, PATH), delay-loaded imports included. It runs nothing, not even ldd, which would
// execute the file.
//
// Limits: Libraries that a program opens by itself (dlopen, as cudarc does) are in no file's list; Open answers for names that are
// known. LD_PRELOAD, audit libraries and setuid rules are not followed, glibc-hwcaps on x86-64 only, and not the older directories (tls,
// haswell) that glibc 2.37 dropped. On Windows manifests (side-by-side assemblies), .local redirection and AddDllDirectory are not
// followed, nor what Windows' own DLLs import.
package loader
