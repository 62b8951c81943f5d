//! A program on wgpu for gpubuild's zoo. Its argument says what it does with the device:
//! matmul (a matrix product), indirect (the same, by an indirect dispatch), draw (only draws, indirectly: wgpu checks the
//! arguments of the draw with a compute pipeline of its own), cpu (opens the device, computes on the CPU).
use wgpu::util::DeviceExt;

const N: usize = 64;

fn product(a: &[f32], b: &[f32]) -> Vec<f32> {
    let mut c = vec![0.0; N * N];
    for y in 0..N {
        for x in 0..N {
            c[y * N + x] = (0..N).map(|k| a[y * N + k] * b[k * N + x]).sum();
        }
    }
    c
}

fn bytes(v: &[f32]) -> Vec<u8> {
    v.iter().flat_map(|x| x.to_ne_bytes()).collect()
}

fn main() {
    let mode = std::env::args().nth(1).unwrap_or_else(|| "matmul".into());
    let instance = wgpu::Instance::new(&wgpu::InstanceDescriptor { backends: wgpu::Backends::VULKAN, ..Default::default() });
    let adapter = pollster::block_on(instance.request_adapter(&Default::default())).expect("no adapter");
    let (device, queue) = pollster::block_on(adapter.request_device(&Default::default())).expect("no device");
    println!("adapter: {}", adapter.get_info().name);
    let a: Vec<f32> = (0..N * N).map(|i| (i % 7) as f32).collect();
    let b: Vec<f32> = (0..N * N).map(|i| (i % 5) as f32).collect();
    if mode == "cpu" {
        println!("{}", product(&a, &b)[N + 1]);
        return;
    }
    let module = device.create_shader_module(wgpu::include_wgsl!("matmul.wgsl"));
    let mut encoder = device.create_command_encoder(&Default::default());
    if mode == "draw" {
        let texture = device.create_texture(&wgpu::TextureDescriptor {
            label: None,
            size: wgpu::Extent3d { width: 8, height: 8, depth_or_array_layers: 1 },
            mip_level_count: 1,
            sample_count: 1,
            dimension: wgpu::TextureDimension::D2,
            format: wgpu::TextureFormat::Rgba8Unorm,
            usage: wgpu::TextureUsages::RENDER_ATTACHMENT,
            view_formats: &[],
        });
        let pipeline = device.create_render_pipeline(&wgpu::RenderPipelineDescriptor {
            label: None,
            layout: None,
            vertex: wgpu::VertexState { module: &module, entry_point: None, compilation_options: Default::default(), buffers: &[] },
            primitive: Default::default(),
            depth_stencil: None,
            multisample: Default::default(),
            fragment: Some(wgpu::FragmentState {
                module: &module,
                entry_point: None,
                compilation_options: Default::default(),
                targets: &[Some(wgpu::TextureFormat::Rgba8Unorm.into())],
            }),
            multiview: None,
            cache: None,
        });
        let words: Vec<u8> = [3u32, 1, 0, 0].iter().flat_map(|x| x.to_ne_bytes()).collect();
        let arguments = device.create_buffer_init(&wgpu::util::BufferInitDescriptor {
            label: None,
            contents: &words,
            usage: wgpu::BufferUsages::INDIRECT,
        });
        let view = texture.create_view(&Default::default());
        {
            let mut pass = encoder.begin_render_pass(&wgpu::RenderPassDescriptor {
                color_attachments: &[Some(wgpu::RenderPassColorAttachment {
                    view: &view,
                    depth_slice: None,
                    resolve_target: None,
                    ops: Default::default(),
                })],
                ..Default::default()
            });
            pass.set_pipeline(&pipeline);
            pass.draw_indirect(&arguments, 0);
        }
        queue.submit([encoder.finish()]);
        device.poll(wgpu::PollType::Wait).expect("poll");
        println!("drawn");
        return;
    }
    let pipeline = device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
        label: None,
        layout: None,
        module: &module,
        entry_point: Some("matmul"),
        compilation_options: Default::default(),
        cache: None,
    });
    let size = (N * N * 4) as u64;
    let inputs: Vec<wgpu::Buffer> = [&a, &b]
        .iter()
        .map(|v| {
            device.create_buffer_init(&wgpu::util::BufferInitDescriptor {
                label: None,
                contents: &bytes(v),
                usage: wgpu::BufferUsages::STORAGE,
            })
        })
        .collect();
    let out = device.create_buffer(&wgpu::BufferDescriptor {
        label: None,
        size,
        usage: wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_SRC,
        mapped_at_creation: false,
    });
    let read = device.create_buffer(&wgpu::BufferDescriptor {
        label: None,
        size,
        usage: wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST,
        mapped_at_creation: false,
    });
    let bound = device.create_bind_group(&wgpu::BindGroupDescriptor {
        label: None,
        layout: &pipeline.get_bind_group_layout(0),
        entries: &[
            wgpu::BindGroupEntry { binding: 0, resource: inputs[0].as_entire_binding() },
            wgpu::BindGroupEntry { binding: 1, resource: inputs[1].as_entire_binding() },
            wgpu::BindGroupEntry { binding: 2, resource: out.as_entire_binding() },
        ],
    });
    let groups: Vec<u8> = [8u32, 8, 1].iter().flat_map(|x| x.to_ne_bytes()).collect();
    let arguments = device.create_buffer_init(&wgpu::util::BufferInitDescriptor {
        label: None,
        contents: &groups,
        usage: wgpu::BufferUsages::INDIRECT,
    });
    {
        let mut pass = encoder.begin_compute_pass(&Default::default());
        pass.set_pipeline(&pipeline);
        pass.set_bind_group(0, &bound, &[]);
        if mode == "indirect" {
            pass.dispatch_workgroups_indirect(&arguments, 0);
        } else {
            pass.dispatch_workgroups(8, 8, 1);
        }
    }
    encoder.copy_buffer_to_buffer(&out, 0, &read, 0, size);
    queue.submit([encoder.finish()]);
    read.slice(..).map_async(wgpu::MapMode::Read, |r| r.expect("map"));
    device.poll(wgpu::PollType::Wait).expect("poll");
    let got: Vec<f32> = read.slice(..).get_mapped_range().chunks(4).map(|x| f32::from_ne_bytes(x.try_into().unwrap())).collect();
    let want = product(&a, &b);
    assert!(got.iter().zip(&want).all(|(g, w)| (g - w).abs() < 0.5), "a wrong product");
    println!("{}", got[N + 1]);
}
