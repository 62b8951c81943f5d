fn main() {
    #[cfg(feature = "gpu")]
    println!("{}", tfhe::run());
}
