//! A matrix product and a softmax, on the GPU if candle has one: and candle never has one here (see Cargo.toml).

use candle_core::{Device, Result, Tensor};
use candle_nn::ops::softmax_last_dim;

fn main() -> Result<()> {
    let device = Device::cuda_if_available(0)?;
    println!("device: {:?}", device.location());
    let numbers: Vec<f32> = (0..64 * 64).map(|i| (i % 7) as f32 / 7.0).collect();
    let a = Tensor::from_vec(numbers, (64, 64), &device)?;
    let product = a.matmul(&a.t()?)?;
    let rows = softmax_last_dim(&product)?.sum(1)?;
    println!("sum of the softmax of 64 rows: {:.3}", rows.sum_all()?.to_scalar::<f32>()?);
    Ok(())
}
