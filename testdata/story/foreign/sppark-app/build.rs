// As sppark's own proofs of concept do it.
use std::env;

fn main() {
    println!("cargo:rerun-if-changed=add.cu");
    if env::var_os("CARGO_FEATURE_CUDA").is_some() {
        let root = env::var_os("DEP_SPPARK_ROOT").expect("sppark says where its templates are");
        cc::Build::new().cuda(true).flag("-arch=sm_80").include(root).file("add.cu").compile("add");
    }
}
