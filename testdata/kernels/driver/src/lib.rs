//! Needs the driver alone: its kernel was written by hand, no nvcc ever saw it.

/// PTX that no toolkit of the machine made: it stays what it is whatever is chosen.
pub const SCALE: &str = ".version 7.0\n.target sm_52\n.address_size 64\n.visible .entry driver_scale(.param .u64 x)\n{\n\tret;\n}\n\0";

/// Loads the kernel; the driver's error code, 0 is success.
pub fn launch() -> Result<i32, String> {
    // SAFETY: the driver's own functions, with the arguments that cuda.h says.
    unsafe {
        let lib = libloading::Library::new("libcuda.so.1").map_err(|e| e.to_string())?;
        let load: libloading::Symbol<unsafe extern "C" fn(*mut *mut u8, *const u8) -> i32> = lib.get(b"cuModuleLoadData\0").map_err(|e| e.to_string())?;
        let mut module = std::ptr::null_mut();
        Ok(load(&mut module, SCALE.as_ptr()))
    }
}
