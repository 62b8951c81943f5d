fn main() {
    println!("##Cpu##");
}
