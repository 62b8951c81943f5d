fn main() {
    let mut config = cmake::Config::new("cuda");
    if cfg!(feature = "debug-fake-multi-gpu") {
        config.define("FAKE_MULTI_GPU", "ON");
    }
    let built = config.build_target("kernels").build();
    println!("cargo:rustc-link-search=native={}/build", built.display());
    println!("cargo:rustc-link-lib=static=kernels");
    println!("cargo:rustc-link-search=native=/usr/local/cuda/lib64");
    println!("cargo:rustc-link-lib=cudart");
    println!("cargo:rustc-link-lib=stdc++");
}
