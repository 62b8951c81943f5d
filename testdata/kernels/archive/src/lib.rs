extern "C" {
    fn archive_launch() -> i32;
}

/// The runtime's error code; 0 is success.
pub fn launch() -> i32 {
    // SAFETY: it takes nothing and keeps nothing.
    unsafe { archive_launch() }
}
