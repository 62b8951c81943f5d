//! A matrix product and a softmax with candle, compared with the CPU's. Exits 1 if a result is wrong or the device that was
//! asked for is not there, 2 if the command line is.
//!
//! Nothing here asks which features this package has: candle decides what a device is, as in most programs that use it.

use std::process::ExitCode;
use std::time::Instant;

use candle_core::{Device, DeviceLocation, Result, Tensor};
use candle_nn::ops::softmax_last_dim;

const USAGE: &str = "\
usage: candle-matmul [--device auto|cpu|cuda] [--sizes N,N,...] [--ops matmul,softmax]
  --device  auto (the default) takes the GPU and falls back to the CPU
  --sizes   sides of the square matrices; 64,256,512 by default
  --ops     what to compute; both by default";

struct Options {
    device: String,
    sizes: Vec<usize>,
    softmax: bool,
}

fn main() -> ExitCode {
    let options = match parse(std::env::args().skip(1)) {
        Ok(Some(options)) => options,
        Ok(None) => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        Err(why) => {
            eprintln!("error: {why}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match run(&options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => {
            eprintln!("error: wrong result");
            ExitCode::FAILURE
        }
        Err(why) => {
            eprintln!("error: {why}");
            ExitCode::FAILURE
        }
    }
}

/// False if a result is wrong.
fn run(options: &Options) -> Result<bool> {
    let device = open(&options.device)?;
    println!("{:<8} {:>6} {:>10} {:>12}", "op", "n", "ms", "difference");
    let mut right = true;
    for &n in &options.sizes {
        let a = Tensor::from_vec(numbers(n * n, 1), (n, n), &Device::Cpu)?;
        let b = Tensor::from_vec(numbers(n * n, 2), (n, n), &Device::Cpu)?;
        // Sums of n products in another order drift apart by about n * 1e-8; a wrong term is off by about 0.1.
        right &= compare("matmul", n, 1e-6 * n.max(10) as f32, &device, &[&a, &b], |t| t[0].matmul(&t[1]))?;
        if options.softmax {
            right &= compare("softmax", n, 1e-5, &device, &[&a], |t| softmax_last_dim(&t[0]))?;
        }
    }
    Ok(right)
}

/// Numbers in [-1, 1), the same for the same seed on every machine.
fn numbers(count: usize, seed: u32) -> Vec<f32> {
    let mut state = seed.wrapping_mul(2_654_435_761) | 1;
    (0..count)
        .map(|_| {
            // xorshift32
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            (state >> 8) as f32 / (1 << 23) as f32 - 1.0
        })
        .collect()
}

/// Finds the device and prints it. Only "cuda" insists; "auto" falls back and says why.
fn open(wanted: &str) -> Result<Device> {
    let (device, why) = match wanted {
        "cpu" => (Device::Cpu, "asked for by --device cpu".to_string()),
        "cuda" => (Device::new_cuda(0)?, String::new()),
        _ => match Device::new_cuda(0) {
            Ok(device) => (device, String::new()),
            Err(e) => (Device::Cpu, e.to_string()),
        },
    };
    match device.location() {
        DeviceLocation::Cuda { gpu_id } => println!("device: cuda {gpu_id}"),
        // candle's messages can have a backtrace below the first line.
        _ => println!("device: cpu ({})", why.lines().next().unwrap_or_default()),
    }
    Ok(device)
}

/// Computes `op` on the device and on the CPU and prints one row; false if they differ by more than `tolerance`.
fn compare(
    name: &str,
    n: usize,
    tolerance: f32,
    device: &Device,
    inputs: &[&Tensor],
    op: impl Fn(&[Tensor]) -> Result<Tensor>,
) -> Result<bool> {
    let on_cpu = op(&inputs.iter().map(|&t| t.clone()).collect::<Vec<_>>())?;
    let moved = inputs.iter().map(|t| t.to_device(device)).collect::<Result<Vec<_>>>()?;
    op(&moved)?; // the first call loads the kernels
    device.synchronize()?;
    let start = Instant::now();
    let result = op(&moved)?;
    device.synchronize()?;
    let ms = start.elapsed().as_secs_f64() * 1e3;
    let (x, y) = (values(&on_cpu)?, values(&result)?);
    let difference = x.iter().zip(&y).map(|(x, y)| distance(*x, *y)).fold(0.0, f32::max);
    println!("{name:<8} {n:>6} {ms:>10.3} {difference:>12.1e}");
    Ok(x.len() == n * n && x.len() == y.len() && difference <= tolerance)
}

fn values(t: &Tensor) -> Result<Vec<f32>> {
    t.to_device(&Device::Cpu)?.flatten_all()?.to_vec1()
}

/// Anything that is not a number is infinitely far off.
fn distance(x: f32, y: f32) -> f32 {
    let d = (x - y).abs();
    if d.is_nan() {
        f32::INFINITY
    } else {
        d
    }
}

/// None if help was asked for.
fn parse(mut args: impl Iterator<Item = String>) -> std::result::Result<Option<Options>, String> {
    let mut options = Options { device: "auto".into(), sizes: vec![64, 256, 512], softmax: true };
    while let Some(arg) = args.next() {
        if arg == "-h" || arg == "--help" {
            return Ok(None);
        }
        let (name, value) = match arg.split_once('=') {
            Some((name, value)) => (name.to_string(), Some(value.to_string())),
            None => (arg.clone(), None),
        };
        if !["--device", "--sizes", "--ops"].contains(&name.as_str()) {
            return Err(format!("unknown argument {arg:?}"));
        }
        let value = value.or_else(|| args.next()).ok_or_else(|| format!("{name} needs a value"))?;
        match (name.as_str(), value.as_str()) {
            ("--device", "auto" | "cpu" | "cuda") => options.device = value,
            ("--device", _) => return Err(format!("unknown device {value:?}: expected auto, cpu or cuda")),
            ("--ops", "matmul") => options.softmax = false,
            ("--ops", "matmul,softmax") => options.softmax = true,
            ("--ops", _) => return Err(format!("unknown ops {value:?}: expected matmul or matmul,softmax")),
            _ => options.sizes = value.split(',').map(size).collect::<std::result::Result<_, _>>()?,
        }
    }
    Ok(Some(options))
}

fn size(s: &str) -> std::result::Result<usize, String> {
    match s.trim().parse() {
        Ok(n) if (1..=16384).contains(&n) => Ok(n),
        _ => Err(format!("{s:?} is no size: expected a whole number from 1 to 16384")),
    }
}
