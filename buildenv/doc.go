// Package buildenv says what a machine is to a build and what a build needs of it, as plain values.
//
// A Host is a snapshot: operating system, environment, files, registry. An Env is a set of variables with the platform's own rules
// for their names; a Delta is a list of changes to it, each with its reason; a Cmd is a process to be started and a Result what came of
// it. Nothing here touches the machine: buildenv/local makes the real Host, buildenv/proc runs a Cmd.
//
// ReadTOML reads with go-toml, which takes a tenth of the time of BurntSushi/toml, up to the size at which it becomes slower.
//
// Paths are strings by the host's own rules, so that a Windows machine can be looked at on Linux. Only absolute paths and paths below
// them are understood; Host.Abs and Host.From make one of what a user wrote, of "C:x", too.
package buildenv
