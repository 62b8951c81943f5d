//! Kernels by CMake's own CUDA language, as llama.cpp and whisper.cpp have them. Like their scripts it declares none of the variables
//! that it or CMake reads.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=CMakeLists.txt");
    println!("cargo::rerun-if-changed=src/kernel.cu");
    let mut config = cmake::Config::new(".");
    if let Ok(arch) = std::env::var("CUDA_COMPUTE_CAP") {
        config.define("CMAKE_CUDA_ARCHITECTURES", arch);
    }
    let out = config.build();
    println!("cargo::rustc-link-search=native={}/lib", out.display());
    println!("cargo::rustc-link-lib=static=cmake_kernels");
    let cache = std::fs::read_to_string(out.join("build/CMakeCache.txt")).expect("CMake writes it");
    let compiler = cache.lines().find_map(|l| l.strip_prefix("CMAKE_CUDA_COMPILER:")?.split_once('=')).expect("CMake found one").1;
    let root = std::path::Path::new(compiler).parent().and_then(|bin| bin.parent()).expect("it lies in bin");
    println!("cargo::rustc-link-search=native={}", root.join("lib64").display());
    println!("cargo::rustc-link-lib=static=cudart_static");
    for lib in ["stdc++", "dl", "rt", "pthread"] {
        println!("cargo::rustc-link-lib=dylib={lib}");
    }
}
