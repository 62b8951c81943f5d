#[cfg(feature = "cuda")]
extern "C" {
    fn run(a: *mut i32) -> i32;
}

fn main() {
    #[cfg(feature = "cuda")]
    println!("{}", unsafe { run(std::ptr::null_mut()) });
}
