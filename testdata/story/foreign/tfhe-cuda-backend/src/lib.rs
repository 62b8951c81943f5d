extern "C" {
    pub fn run(a: *mut i32) -> i32;
}
