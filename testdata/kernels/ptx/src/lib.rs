/// The kernel as text, for the driver to compile.
pub const SCALE: &str = include_str!(concat!(env!("OUT_DIR"), "/kernel.ptx"));
