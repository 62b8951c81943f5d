//! A product by cudarc on the GPU; with a word, on the CPU where there is none, silently.

use cudarc::driver::{CudaContext, DriverError, LaunchConfig, PushKernelArg};
use cudarc::nvrtc::Ptx;

const N: usize = 32;
const PTX: &str = include_str!("matmul.ptx"); // what ../../ptx.h makes

fn on_cpu(a: &[f32]) -> Vec<f32> {
    let mut c = vec![0.0; N * N];
    for y in 0..N {
        for k in 0..N {
            for x in 0..N {
                c[y * N + x] += a[y * N + k] * a[k * N + x];
            }
        }
    }
    c
}

fn on_gpu(a: &[f32]) -> Result<Vec<f32>, DriverError> {
    let context = CudaContext::new(0)?;
    let stream = context.default_stream();
    let kernel = context.load_module(Ptx::from_src(PTX))?.load_function("matmul")?;
    let input = stream.clone_htod(a)?;
    let mut output = stream.alloc_zeros::<f32>(N * N)?;
    let n = N as u32;
    let mut call = stream.launch_builder(&kernel);
    call.arg(&input).arg(&input).arg(&mut output).arg(&n);
    let shape = LaunchConfig { grid_dim: (n / 16, n / 16, 1), block_dim: (16, 16, 1), shared_mem_bytes: 0 };
    // SAFETY: three matrices of N * N elements and their size, as the kernel expects.
    unsafe { call.launch(shape) }?;
    stream.synchronize()?;
    stream.clone_dtoh(&output)
}

fn main() {
    let a: Vec<f32> = (0..N * N).map(|i| (i % 7) as f32).collect();
    let may_fall_back = std::env::args().len() > 1;
    match on_gpu(&a) {
        Ok(c) => assert_eq!(c, on_cpu(&a)),
        Err(_) if may_fall_back => println!("{}", on_cpu(&a)[1]),
        Err(e) => panic!("{e:?}"),
    }
}
