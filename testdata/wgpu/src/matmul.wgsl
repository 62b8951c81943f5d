@group(0) @binding(0) var<storage, read> a: array<f32>;
@group(0) @binding(1) var<storage, read> b: array<f32>;
@group(0) @binding(2) var<storage, read_write> c: array<f32>;

const N: u32 = 64u;

@compute @workgroup_size(8, 8)
fn matmul(@builtin(global_invocation_id) at: vec3<u32>) {
    var sum = 0.0;
    for (var k = 0u; k < N; k++) {
        sum += a[at.y * N + k] * b[k * N + at.x];
    }
    c[at.y * N + at.x] = sum;
}

@vertex
fn triangle(@builtin(vertex_index) i: u32) -> @builtin(position) vec4<f32> {
    return vec4<f32>(f32(i & 1u) * 4.0 - 1.0, f32(i & 2u) * 2.0 - 1.0, 0.0, 1.0);
}

@fragment
fn white() -> @location(0) vec4<f32> {
    return vec4<f32>(1.0);
}
