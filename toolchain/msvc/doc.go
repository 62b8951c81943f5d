// Package msvc finds what Visual Studio brings: every instance from 2017 on, every toolset inside each, the Windows SDK and the UCRT, and
// says which environment variables a toolset and an SDK mean. It reads files and the registry only: no cl.exe, vswhere, PowerShell or
// vcvarsall.bat is run.
//
// An instance comes from state.json, which is what the COM server behind vswhere reads, too (ziglang/zig lib/std/zig/WindowsSdk.zig),
// from the registry, from the variables of a developer prompt, or from the usual directories. The files on the disk decide which toolsets
// it has, never the list of packages in state.json: the two can disagree.
//
// The version of a toolset is the name of its directory, and _MSC_VER follows from it. Visual Studio 2015 and older are not found. A
// layout without registry and state.json, such as a copied toolset, is found only through VCToolsInstallDir and its like.
package msvc
