//! The products on whatever device there is: a run of this test under `gpubuild test` shows whether the GPU took part.

use matmul::{cpu, largest_difference, matrix, tolerance, Device, Wish};

#[test]
fn products_agree_on_any_device() {
    let device = Device::open(Wish::Auto).expect("auto falls back to the CPU");
    println!("device: {device}");
    // One less, one more than a tile, and several tiles.
    for n in [1, 15, 17, 64, 100] {
        let (a, b) = (matrix(n, 1), matrix(n, 2));
        let on_cpu = cpu::multiply(&a, &b, n);
        if let Some((on_gpu, _)) = device.multiply(&a, &b, n).expect("the device multiplies") {
            let difference = largest_difference(&on_cpu, &on_gpu);
            assert!(difference <= tolerance(n), "n = {n}: off by {difference}");
        }
    }
}

#[test]
fn the_check_of_the_cpu_sees_one_wrong_element() {
    let n = 33;
    let (a, b) = (matrix(n, 1), matrix(n, 2));
    let mut c = cpu::multiply(&a, &b, n);
    assert!(cpu::error(&a, &b, &c, n) < 1e-3);
    c[5 * n + 7] += 0.1;
    assert!(cpu::error(&a, &b, &c, n) > 0.09);
}

#[test]
fn what_is_not_a_number_is_a_difference() {
    assert_eq!(largest_difference(&[1.0, f32::NAN], &[1.0, 2.0]), f32::INFINITY);
}
