//! Kernels as a static library, as candle-kernels has its mixture of experts and candle-flash-attn everything.

use std::{env, path::PathBuf};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    cudaforge::KernelBuilder::new().source_files(["src/kernel.cu"]).build_lib(out.join("libarchive_kernels.a")).expect("a library");
    let toolkit = cudaforge::CudaToolkit::detect().expect("a toolkit");
    println!("cargo::rustc-link-search=native={}", out.display());
    println!("cargo::rustc-link-lib=static=archive_kernels");
    println!("cargo::rustc-link-search=native={}", toolkit.lib_dir.display());
    println!("cargo::rustc-link-lib=static=cudart_static");
    for lib in ["stdc++", "dl", "rt", "pthread"] {
        println!("cargo::rustc-link-lib=dylib={lib}");
    }
}
