//! Says how much device code there is. With an argument it launches all of it, so that the linker keeps it; no test does.

fn main() {
    let launch = std::env::args().count() > 1;
    #[cfg(feature = "cuda")]
    println!("ptx: {} bytes", kernels_ptx::SCALE.len());
    #[cfg(feature = "archive")]
    println!("archive: {}", if launch { kernels_archive::launch() } else { 0 });
    #[cfg(feature = "cc")]
    println!("cc: {}", if launch { kernels_cc::launch() } else { 0 });
    #[cfg(feature = "cmake")]
    println!("cmake: {}", if launch { kernels_cmake::launch() } else { 0 });
    #[cfg(feature = "driver")]
    println!("driver: {:?}", if launch { kernels_driver::launch() } else { Ok(0) });
    #[cfg(feature = "bindings")]
    println!("bindings: CUDA {}", if launch { cudarc::driver::sys::CUDA_VERSION } else { 0 });
    println!("launched: {launch}");
}
