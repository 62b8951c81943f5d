// Package loader finds, before a program is started, which shared libraries its loader will load and from where: what is missing, what
// is a link stub, and what is found only in directories that gpubuild adds.
//
// What a Linux program loads is asked of the system's own loader, glibc's or musl's, by its path (never of the one that the file names):
// it prints the list, and runs nothing of the program. Where it cannot be asked (another processor, a loader of Nix's, a file with an audit
// library, which the loader would run), the answer is Unknown. For Windows programs the search order of LoadLibrary is followed (the
// program's, the system's, the Windows and the current directory, PATH), delay-loaded imports included.
//
// Limits: Libraries that a program opens by itself (dlopen, as cudarc does) are in no file's list; Open answers for names that are known.
// On Windows manifests (side-by-side assemblies), .local redirection, KnownDLLs, AddDllDirectory and a 32-bit program's SysWOW64 are not
// followed, nor what Windows' own DLLs import.
package loader
