//! Compiles src/matmul.cu with nvcc, to a fatbin (machine code for one GPU architecture, and PTX) and to PTX as text. Without
//! the feature `cuda` it does nothing and needs nothing.
//!
//! It looks for nvcc, and watches variables, as the build scripts of real GPU crates do: a different nvcc that comes first on
//! PATH, or one replaced in place, therefore goes unnoticed by cargo.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const KERNEL: &str = "src/matmul.cu";

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed={KERNEL}");
    for name in ["NVCC", "CUDA_HOME", "CUDA_PATH", "CUDA_COMPUTE_CAP", "NVCC_CCBIN"] {
        println!("cargo:rerun-if-env-changed={name}");
    }
    if env::var_os("CARGO_FEATURE_CUDA").is_none() {
        return;
    }
    if let Err(why) = compile() {
        eprintln!("error: {why}");
        std::process::exit(1);
    }
}

fn compile() -> Result<(), String> {
    let nvcc = Nvcc::find();
    let arch = arch()?;
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("cargo has not set OUT_DIR")?);
    nvcc.run("-fatbin", arch.as_ref().map(|a| format!("-arch=sm_{a}")), &out.join("matmul.fatbin"))?;
    nvcc.run("-ptx", arch.as_ref().map(|a| format!("-arch=compute_{a}")), &out.join("matmul.ptx"))
}

/// The architecture in CUDA_COMPUTE_CAP ("90", "9.0", "90a", "sm_90"); none leaves the choice to nvcc, which takes the oldest
/// that it still compiles for.
fn arch() -> Result<Option<String>, String> {
    let Some(given) = variable("CUDA_COMPUTE_CAP") else {
        return Ok(None);
    };
    let bare = given.trim().trim_start_matches("sm_").replace('.', "");
    let digits = bare.trim_end_matches(['a', 'f']);
    if digits.len() < 2 || bare.len() > digits.len() + 1 || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(format!("CUDA_COMPUTE_CAP is {given:?}: expected one compute capability, such as 90 or 8.6"));
    }
    Ok(Some(bare))
}

struct Nvcc {
    program: PathBuf,
    origin: &'static str,
}

impl Nvcc {
    /// NVCC, then PATH, then the toolkit that CUDA_HOME or CUDA_PATH names.
    fn find() -> Nvcc {
        if let Some(program) = variable("NVCC") {
            return Nvcc { program: program.into(), origin: "NVCC" };
        }
        let name = format!("nvcc{}", env::consts::EXE_SUFFIX);
        let path = env::var_os("PATH").unwrap_or_default();
        if let Some(program) = env::split_paths(&path).map(|dir| dir.join(&name)).find(|program| program.is_file()) {
            return Nvcc { program, origin: "PATH" };
        }
        for origin in ["CUDA_HOME", "CUDA_PATH"] {
            if let Some(root) = variable(origin) {
                let program = Path::new(&root).join("bin").join(&name);
                if program.is_file() {
                    return Nvcc { program, origin };
                }
            }
        }
        Nvcc { program: "nvcc".into(), origin: "PATH" }
    }

    fn run(&self, to: &str, arch: Option<String>, out: &Path) -> Result<(), String> {
        // nvcc itself reads NVCC_CCBIN, so the host compiler needs no flag here.
        let mut command = Command::new(&self.program);
        command.arg(to).args(arch).arg("-o").arg(out).arg(KERNEL);
        match command.output() {
            Ok(done) if done.status.success() => Ok(()),
            Ok(done) => Err(format!(
                "nvcc could not compile {KERNEL} ({}; nvcc from {})\ncommand: {command:?}\n{}",
                done.status,
                self.origin,
                messages(&done)
            )),
            Err(e) => Err(format!(
                "cannot run nvcc ({}, from {}): {e}\n\
                 The feature `cuda` compiles {KERNEL} and needs the CUDA toolkit: put its nvcc on PATH, or name it in NVCC or its root in CUDA_HOME.",
                self.program.display(),
                self.origin
            )),
        }
    }
}

/// What nvcc said: on stderr on Unix, on stdout on Windows.
fn messages(done: &Output) -> String {
    let text = [&done.stderr[..], &done.stdout[..]].concat();
    String::from_utf8_lossy(&text).trim_end().to_string()
}

/// A variable's value; an empty one counts as unset.
fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}
