//! The product on the GPU, by this package's own kernel.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use cudarc::driver::{sys, CudaContext, CudaFunction, CudaModule, CudaStream, DriverError, LaunchConfig, PushKernelArg};
use cudarc::nvrtc::Ptx;

/// Machine code for the architecture that was built for, and PTX: what a driver runs without compiling.
static FATBIN: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/matmul.fatbin"));
/// PTX as text, which a driver that refuses the fatbin may still compile.
static PTX: &str = include_str!(concat!(env!("OUT_DIR"), "/matmul.ptx"));

/// Side of a thread block; TILE in matmul.cu.
const TILE: u32 = 16;
/// Launches that are timed, after one that is not.
const TIMED: u32 = 3;

/// The first CUDA device with the kernel loaded.
pub struct Gpu {
    stream: Arc<CudaStream>,
    kernel: CudaFunction,
    name: String,
    capability: (i32, i32),
}

impl Gpu {
    /// Opens the first device. The error says why there is none.
    pub fn open() -> Result<Gpu, String> {
        // Without this check the first call of cudarc panics.
        if !unsafe { sys::is_culib_present() } {
            return Err("no CUDA driver: libcuda was not found".into());
        }
        let context = CudaContext::new(0).map_err(|e| format!("no CUDA device: {}", said(e)))?;
        let ask = |e| format!("the CUDA device does not answer: {}", said(e));
        let name = context.name().map_err(ask)?;
        let capability = context.compute_capability().map_err(ask)?;
        let kernel = load(&context)?.load_function("matmul").map_err(|e| format!("the kernel matmul is not in its module: {}", said(e)))?;
        Ok(Gpu { stream: context.default_stream(), kernel, name, capability })
    }

    /// The product, and the milliseconds that one launch took from the call to the end of the kernel (no copies).
    pub fn multiply(&self, a: &[f32], b: &[f32], n: usize) -> Result<(Vec<f32>, f64), String> {
        self.try_multiply(a, b, n).map_err(|e| format!("the GPU failed at n = {n}: {}", said(e)))
    }

    fn try_multiply(&self, a: &[f32], b: &[f32], n: usize) -> Result<(Vec<f32>, f64), DriverError> {
        let size = u32::try_from(n).expect("n fits in 32 bits");
        let a = self.stream.clone_htod(a)?;
        let b = self.stream.clone_htod(b)?;
        let mut c = self.stream.alloc_zeros::<f32>(n * n)?;
        let blocks = size.div_ceil(TILE);
        let shape = LaunchConfig { grid_dim: (blocks, blocks, 1), block_dim: (TILE, TILE, 1), shared_mem_bytes: 0 };
        let mut start = Instant::now();
        for launch in 0..=TIMED {
            if launch == 1 {
                self.stream.synchronize()?;
                start = Instant::now();
            }
            let mut call = self.stream.launch_builder(&self.kernel);
            call.arg(&a).arg(&b).arg(&mut c).arg(&size);
            // SAFETY: the arguments are those of matmul.cu, each matrix has n * n elements, and the kernel stays within them.
            unsafe { call.launch(shape) }?;
        }
        self.stream.synchronize()?;
        let ms = start.elapsed().as_secs_f64() * 1e3 / f64::from(TIMED);
        Ok((self.stream.clone_dtoh(&c)?, ms))
    }
}

impl fmt::Display for Gpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (compute capability {}.{})", self.name, self.capability.0, self.capability.1)
    }
}

/// Loads the fatbin or, if the driver refuses it (another architecture, say, and PTX newer than the driver), the PTX.
fn load(context: &Arc<CudaContext>) -> Result<Arc<CudaModule>, String> {
    let fatbin = match context.load_module(Ptx::from_binary(FATBIN.to_vec())) {
        Ok(module) => return Ok(module),
        Err(e) => said(e),
    };
    eprintln!("note: the driver refused the fatbin ({fatbin}); loading the PTX");
    context
        .load_module(Ptx::from_src(PTX))
        .map_err(|e| format!("the driver refused the kernel, as a fatbin ({fatbin}) and as PTX ({})", said(e)))
}

/// The driver's own name for an error, or cudarc's where it has none (a link stub in the driver's place).
fn said(e: DriverError) -> String {
    match e.error_name() {
        Ok(name) => name.to_string_lossy().into_owned(),
        Err(_) => format!("{:?}", e.0),
    }
}
