// Package manifest has the packages of a project: what Load reads of Cargo.toml and Cargo.lock before cargo is asked, and what cargo's own
// metadata puts in its place (Project.With). A Package answers what its features turn on, and on which line something stands.
//
// It never decides what a build links: that is cargo's answer. Its only judgement of a command line is Project.GPUWork, the look before
// cargo is asked, which may say yes wrongly and never no. Nothing is written, no process is run; every read goes through buildenv.Host.
//
// Limits: without metadata, and for the look, manifests of registry and git packages are read where cargo has unpacked them below
// CARGO_HOME or in the workspace's vendor directory, so that a registry package outside the catalog that cargo has not unpacked yet shows
// no build script; of [patch] only paths are followed, and only by GPUWork; whether a [target.…] table applies is not decided. A cargo
// before 1.91 gives metadata of the workspace only, unless the command line names its targets.
package manifest
