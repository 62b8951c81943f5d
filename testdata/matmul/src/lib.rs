//! Products of square f32 matrices: on the CPU, and with the feature `cuda` on the GPU.

pub mod cpu;
#[cfg(feature = "cuda")]
pub mod gpu;

use std::fmt;
use std::str::FromStr;

/// Where the user wants the products computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// The GPU if there is one, otherwise the CPU.
    Auto,
    Cpu,
    Cuda,
}

impl FromStr for Wish {
    type Err = String;

    fn from_str(s: &str) -> Result<Wish, String> {
        match s {
            "auto" => Ok(Wish::Auto),
            "cpu" => Ok(Wish::Cpu),
            "cuda" => Ok(Wish::Cuda),
            _ => Err(format!("unknown device {s:?}: expected auto, cpu or cuda")),
        }
    }
}

/// Where they are computed.
pub enum Device {
    /// The CPU, and why.
    Cpu(String),
    #[cfg(feature = "cuda")]
    Cuda(gpu::Gpu),
}

impl Device {
    /// Finds the device that `wish` asks for. Only `Wish::Cuda` can fail: `Wish::Auto` falls back to the CPU and keeps the reason.
    pub fn open(wish: Wish) -> Result<Device, String> {
        if wish == Wish::Cpu {
            return Ok(Device::Cpu("asked for by --device cpu".into()));
        }
        match Device::cuda() {
            Err(why) if wish == Wish::Auto => Ok(Device::Cpu(why)),
            other => other,
        }
    }

    #[cfg(feature = "cuda")]
    fn cuda() -> Result<Device, String> {
        gpu::Gpu::open().map(Device::Cuda)
    }

    #[cfg(not(feature = "cuda"))]
    fn cuda() -> Result<Device, String> {
        Err("built without the feature `cuda`".into())
    }

    /// The GPU's product and how many milliseconds its kernel took; None on the CPU.
    pub fn multiply(&self, a: &[f32], b: &[f32], n: usize) -> Result<Option<(Vec<f32>, f64)>, String> {
        match self {
            Device::Cpu(_) => {
                let _ = (a, b, n);
                Ok(None)
            }
            #[cfg(feature = "cuda")]
            Device::Cuda(gpu) => gpu.multiply(a, b, n).map(Some),
        }
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Device::Cpu(why) => write!(f, "cpu ({why})"),
            #[cfg(feature = "cuda")]
            Device::Cuda(gpu) => write!(f, "cuda {gpu}"),
        }
    }
}

/// An n x n matrix of numbers in [-1, 1), the same for the same seed on every machine.
pub fn matrix(n: usize, seed: u32) -> Vec<f32> {
    let mut state = seed.wrapping_mul(2_654_435_761) | 1;
    (0..n * n)
        .map(|_| {
            // xorshift32
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            (state >> 8) as f32 / (1 << 23) as f32 - 1.0
        })
        .collect()
}

/// The largest difference between two matrices; anything that is not a number counts as infinitely far off.
pub fn largest_difference(x: &[f32], y: &[f32]) -> f32 {
    assert_eq!(x.len(), y.len(), "matrices of different sizes");
    x.iter().zip(y).map(|(x, y)| distance((x - y).into())).fold(0.0, f64::max) as f32
}

/// The size of a difference; infinite if it is not a number, which every comparison would let through.
pub(crate) fn distance(d: f64) -> f64 {
    if d.is_nan() {
        f64::INFINITY
    } else {
        d.abs()
    }
}

/// How far two right products may differ. Numbers in [-1, 1) summed in f32 in another order drift apart by about n * 1e-8;
/// one wrong or missing term is off by about 0.1.
pub fn tolerance(n: usize) -> f32 {
    1e-6 * n.max(10) as f32
}
