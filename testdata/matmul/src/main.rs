//! Multiplies matrices of several sizes and prints a table of times and differences. Exits 1 if a product is wrong or the device
//! that was asked for is not there, 2 if the command line is.

use std::process::ExitCode;
use std::time::Instant;

use matmul::{cpu, largest_difference, matrix, tolerance, Device, Wish};

const USAGE: &str = "\
usage: matmul [--device auto|cpu|cuda] [--sizes N,N,...]
  --device  auto (the default) takes the GPU and falls back to the CPU
  --sizes   sides of the square matrices; 64,128,256,512 by default";

struct Options {
    device: Wish,
    sizes: Vec<usize>,
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
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("error: {why}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<(), String> {
    let device = Device::open(options.device)?;
    println!("device: {device}");
    println!("{:>6} {:>10} {:>10} {:>12} {:>12}", "n", "CPU ms", "GPU ms", "GPU GFLOP/s", "difference");
    let mut wrong = Vec::new();
    for &n in &options.sizes {
        let (a, b) = (matrix(n, 1), matrix(n, 2));
        let start = Instant::now();
        let on_cpu = cpu::multiply(&a, &b, n);
        let cpu_ms = start.elapsed().as_secs_f64() * 1e3;
        let error = cpu::error(&a, &b, &on_cpu, n);
        if error > f64::from(tolerance(n)) * (n as f64).sqrt() {
            wrong.push(format!("n = {n}: the CPU's product is off by {error:.1e}"));
        }
        match device.multiply(&a, &b, n)? {
            None => println!("{n:>6} {cpu_ms:>10.3} {:>10} {:>12} {:>12}", "-", "-", "-"),
            Some((on_gpu, gpu_ms)) => {
                let gflops = 2.0 * (n as f64).powi(3) / (gpu_ms * 1e6);
                let difference = largest_difference(&on_cpu, &on_gpu);
                println!("{n:>6} {cpu_ms:>10.3} {gpu_ms:>10.3} {gflops:>12.1} {difference:>12.1e}");
                if difference > tolerance(n) {
                    wrong.push(format!("n = {n}: CPU and GPU differ by {difference:.1e}, allowed is {:.1e}", tolerance(n)));
                }
            }
        }
    }
    if wrong.is_empty() {
        Ok(())
    } else {
        Err(format!("wrong result: {}", wrong.join("; ")))
    }
}

/// None if help was asked for.
fn parse(mut args: impl Iterator<Item = String>) -> Result<Option<Options>, String> {
    let mut options = Options { device: Wish::Auto, sizes: vec![64, 128, 256, 512] };
    while let Some(arg) = args.next() {
        let (name, given) = match arg.split_once('=') {
            Some((name, value)) => (name, Some(value.to_string())),
            None => (arg.as_str(), None),
        };
        let value = |args: &mut dyn Iterator<Item = String>| given.clone().or_else(|| args.next()).ok_or(format!("{name} needs a value"));
        match name {
            "-h" | "--help" => return Ok(None),
            "--device" => options.device = value(&mut args)?.parse()?,
            "--sizes" => options.sizes = value(&mut args)?.split(',').map(size).collect::<Result<_, _>>()?,
            _ => return Err(format!("unknown argument {arg:?}")),
        }
    }
    Ok(Some(options))
}

fn size(s: &str) -> Result<usize, String> {
    match s.trim().parse() {
        Ok(n) if (1..=16384).contains(&n) => Ok(n),
        _ => Err(format!("{s:?} is no size: expected a whole number from 1 to 16384")),
    }
}
