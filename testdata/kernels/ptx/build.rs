//! Kernels as PTX text in the program, as candle-kernels has them.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    cudaforge::KernelBuilder::new().source_files(["src/kernel.cu"]).build_ptx().expect("PTX");
}
