// Package manifest has the packages of a project: as cargo's metadata has them (Project.With), and before cargo is asked as much as Load
// sees of Cargo.toml and Cargo.lock. A Package answers what its features turn on, and on which line something stands.
//
// It never decides what a build links: that is cargo's answer. Nothing is written, no process is run; every read goes through
// buildenv.Host.
//
// Limits: of what a member inherits, Load knows the name and the path only; of default-members and of -p it knows nothing, and looks at all
// members. Manifests of registry and git packages are read where cargo has unpacked them or `cargo vendor` has put them, and of one that is
// not there yet and is outside the catalog, the look sees no build script. Of [patch] only paths are followed, and only by it. A cargo
// before 1.91 gives metadata of the workspace only, unless the command line names its targets.
//
// go-toml reads the texts for Positions: it says at which byte a key stands, and BurntSushi/toml does not.
package manifest
