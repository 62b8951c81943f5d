# A Python program whose own process uses the GPU, through ctypes.
import ctypes, sys
d = ctypes.CDLL("libcuda.so.1")
c, m, f = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
p = [ctypes.c_uint64() for _ in range(3)]
n = ctypes.c_uint(32)
def must(rc):
    if rc:
        sys.exit(1)
must(d.cuInit(0))
must(d.cuDevicePrimaryCtxRetain(ctypes.byref(c), 0))
must(d.cuCtxSetCurrent(c))
must(d.cuModuleLoadData(ctypes.byref(m), b".version 7.0\n.target sm_75\n.visible .entry matmul(.param .u64 a)\n{ ret; }\n"))
must(d.cuModuleGetFunction(ctypes.byref(f), m, b"matmul"))
for x in p:
    must(d.cuMemAlloc_v2(ctypes.byref(x), ctypes.c_size_t(4096)))
args = (ctypes.c_void_p * 4)(*[ctypes.addressof(x) for x in p + [n]])
must(d.cuLaunchKernel(f, 2, 2, 1, 16, 16, 1, 0, None, args, None))
