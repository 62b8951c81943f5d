//! Kernels by the `cc` crate, which finds nvcc in NVCC or on PATH and links libcudart_static.a beside it.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src/kernel.cu");
    println!("cargo::rerun-if-env-changed=CUDA_COMPUTE_CAP");
    let mut build = cc::Build::new();
    build.cuda(true).file("src/kernel.cu");
    if let Ok(arch) = std::env::var("CUDA_COMPUTE_CAP") {
        build.flag(format!("-arch=sm_{arch}"));
    }
    build.compile("cc_kernels");
    for lib in ["dl", "rt", "pthread"] {
        println!("cargo::rustc-link-lib=dylib={lib}");
    }
}
