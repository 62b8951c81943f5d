# What Python programs do with a GPU, by the library and the operation that the word names: which kernels are recorded, and what is said of them.
import sys
def main():
    what = sys.argv[1]
    fw, _, op = what.partition("-")
    if fw == "torch":
        import torch
        dev = "cpu" if op == "cpu" else "cuda"
        t = {"f16": torch.float16, "bf16": torch.bfloat16, "f64": torch.float64}.get(op, torch.float32)
        if op == "tf32": torch.backends.cuda.matmul.allow_tf32 = True
        a = torch.randn(512, 512, device=dev).to(t); b = torch.randn(512, 512, device=dev).to(t)
        if op in ("f32", "f16", "bf16", "f64", "tf32", "cpu"): r = a @ b
        elif op == "bmm": r = torch.bmm(a.view(8, 64, 512), b.view(8, 512, 64))
        elif op == "linear": r = torch.nn.functional.linear(a, b, torch.randn(512, device=dev))
        elif op == "gemv": r = a @ b[0]
        elif op == "i8": r = torch._int_mm(a.to(torch.int8), b.to(torch.int8).t()).float()
        elif op == "fp8":
            s = torch.tensor(1.0, device=dev)
            r = torch._scaled_mm(a.to(torch.float8_e4m3fn), b.to(torch.float8_e4m3fn).t(), scale_a=s, scale_b=s, out_dtype=torch.bfloat16)
        elif op == "add": r = a + b
        elif op == "softmax": r = torch.softmax(a, -1)
        elif op == "conv": r = torch.nn.functional.conv2d(a.view(1, 16, 128, 128), torch.randn(8, 16, 3, 3, device=dev))
        elif op == "attn": r = torch.nn.functional.scaled_dot_product_attention(*[x.view(1, 8, 64, 512)[..., :64].half().contiguous() for x in (a, b, a)])
        elif op == "graph":
            a @ b; torch.cuda.synchronize()
            g = torch.cuda.CUDAGraph()
            with torch.cuda.graph(g): r = a @ b
            g.replay(); torch.cuda.synchronize()
        elif op == "sparse": r = torch.sparse.mm((a * (a > 2)).to_sparse_csr(), b)
        elif op == "grad":
            a.requires_grad_(); r = torch.nn.Sequential(torch.nn.Linear(512, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10)).to(dev)(a); r.sum().backward()
        elif op == "loader":
            from torch.utils.data import DataLoader, TensorDataset
            r = sum((x.to(dev) @ b for x, in DataLoader(TensorDataset(torch.randn(64, 512)), batch_size=16, num_workers=2)), torch.zeros(16, 512, device=dev))
        elif op == "compile":
            f = torch.compile(lambda x, y: torch.relu(x @ y)); r = f(a, b)
        elif op == "oom":
            r = a @ b
            try: torch.empty(1 << 45, device=dev)
            except torch.OutOfMemoryError: print("out of memory, as expected")
        elif op == "assert":
            r = a @ b; torch.cuda.synchronize(); torch.zeros(3, device=dev)[torch.tensor([7], device=dev)]; torch.cuda.synchronize()
        elif op == "profile":
            from torch.profiler import profile, ProfilerActivity
            with profile(activities=[ProfilerActivity.CUDA]) as p: r = a @ b; torch.cuda.synchronize()
            print("kineto events:", sum(e.device_type == torch.autograd.DeviceType.CUDA for e in p.events()))
        elif op == "spawn":
            import torch.multiprocessing as mp
            import products_child
            mp.spawn(products_child.work, nprocs=2); r = a @ b
        print(what, r.float().sum().item())
    elif fw == "cupy":
        import cupy
        a = cupy.random.rand(512, 512, dtype=cupy.float32); print(what, float((a @ a).sum()))
    elif fw == "jax":
        import jax, jax.numpy as jnp
        a = jnp.ones((512, 512)); print(what, jax.devices(), float((a @ a).sum()))
    elif fw == "numba":
        import numpy; numpy.row_stack = numpy.vstack
        from numba import cuda
        import numpy as np
        @cuda.jit
        def matmul(a, b, c):
            i, j = cuda.grid(2)
            s = 0.0
            for k in range(a.shape[1]): s += a[i, k] * b[k, j]
            c[i, j] = s
        a = np.ones((64, 64), np.float32); c = np.zeros((64, 64), np.float32); matmul[(4, 4), (16, 16)](a, a, c); print(what, c.sum())
    elif fw == "triton":
        import torch, triton, triton.language as tl
        @triton.jit
        def matmul_kernel(a, b, c, n, B: tl.constexpr):
            i = tl.program_id(0) * B + tl.arange(0, B); j = tl.program_id(1) * B + tl.arange(0, B); acc = tl.zeros((B, B), dtype=tl.float32)
            for k in range(0, n, B):
                kk = k + tl.arange(0, B); acc += tl.dot(tl.load(a + i[:, None] * n + kk[None, :]), tl.load(b + kk[:, None] * n + j[None, :]))
            tl.store(c + i[:, None] * n + j[None, :], acc)
        a = torch.ones(256, 256, device="cuda"); c = torch.empty_like(a); matmul_kernel[(4, 4)](a, a, c, 256, B=64); print(what, c.sum().item())
    elif fw == "pool":
        import multiprocessing as mp, torch
        from products_child import square
        mp.set_start_method(op or "fork")
        with mp.Pool(2) as p: print(p.map(square, range(4)))
        a = torch.ones(256, 256, device="cuda"); print(what, (a @ a).sum().item())
    elif fw == "gpuchild":
        import multiprocessing as mp
        from products_child import work
        c = mp.get_context(op)
        ps = [c.Process(target=work, args=(i,)) for i in range(2)]
        [p.start() for p in ps]; [p.join() for p in ps]; print(what, [p.exitcode for p in ps])
    elif fw == "osexit":
        import os, torch
        a = torch.ones(256, 256, device="cuda"); print(what, (a @ a).sum().item(), flush=True); os._exit(0)
    elif fw == "serve":
        import time, torch
        a = torch.ones(256, 256, device="cuda")
        while True: print(what, (a @ a).sum().item(), flush=True); time.sleep(0.1)
    elif fw == "subproc":
        import subprocess
        subprocess.run([sys.executable, sys.argv[0], "torch-f32"], check=True)
    elif fw == "many":
        import time, torch
        a = torch.ones(64, 64, device="cuda"); a @ a; torch.cuda.synchronize(); t = time.time()
        for _ in range(200000): torch.mm(a, a, out=a)
        torch.cuda.synchronize(); print(what, time.time() - t)
if __name__ == "__main__": main()
