//! Has no business with nvcc: no toolkit is a reason to run it again.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
}
