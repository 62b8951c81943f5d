#[cfg(feature = "gpu")]
pub fn run() -> i32 {
    unsafe { tfhe_cuda_backend::run(std::ptr::null_mut()) }
}
