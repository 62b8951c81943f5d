// Package catalog is what is known of GPU crates: which of their features mean CUDA, what they need to build and to run, what is missing
// without a feature, and what their build scripts read and keep outside the target directory. Its data is crates.toml, which is embedded.
//
// It knows nothing of a workspace or a build, and reads nothing but itself. Whatever it says of a crate was read in that crate's sources at
// seen_version; another version may differ. go-toml decodes it, which BurntSushi/toml does in ten times the time.
package catalog
