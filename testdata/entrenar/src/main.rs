//! Says whether entrenar can train on a GPU here.

use entrenar::autograd::cuda_training_available;

fn main() {
    println!("device: {}", if cuda_training_available() { "cuda" } else { "cpu" });
}
