//! The product on the CPU: the reference that the GPU's is compared with, and so itself checked.

/// c = a * b, one row of c at a time so that b is read in the order in which it lies in memory.
pub fn multiply(a: &[f32], b: &[f32], n: usize) -> Vec<f32> {
    let mut c = vec![0.0f32; n * n];
    for (row_a, row_c) in a.chunks_exact(n).zip(c.chunks_exact_mut(n)) {
        for (&x, row_b) in row_a.iter().zip(b.chunks_exact(n)) {
            for (sum, &y) in row_c.iter_mut().zip(row_b) {
                *sum += x * y;
            }
        }
    }
    c
}

/// The largest error of c = a * b, by Freivalds' method in f64: c * v against a * (b * v) for a v of +1 and -1. It costs
/// n * n steps, not n * n * n; an error in a single element shows in full, errors in one row cancel only by chance.
pub fn error(a: &[f32], b: &[f32], c: &[f32], n: usize) -> f64 {
    let v: Vec<f64> = (0..n).map(|i| if (i * i + i / 3) % 2 == 0 { 1.0 } else { -1.0 }).collect();
    let times = |m: &[f32], v: &[f64]| -> Vec<f64> {
        m.chunks_exact(n).map(|row| row.iter().zip(v).map(|(&x, y)| f64::from(x) * y).sum()).collect()
    };
    let want = times(a, &times(b, &v));
    times(c, &v).iter().zip(&want).map(|(x, y)| crate::distance(x - y)).fold(0.0, f64::max)
}
