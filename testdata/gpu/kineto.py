# PyTorch's profiler (Kineto): how many kernels it records of a product, which must be as many under the probe as without it.
import sys

try:
    import torch
    from torch.profiler import ProfilerActivity, profile
except ImportError:
    sys.exit("no PyTorch")
if not torch.cuda.is_available():
    sys.exit("PyTorch sees no GPU")
a = torch.ones(512, 512, device="cuda")
torch.cuda.synchronize()
with profile(activities=[ProfilerActivity.CUDA, ProfilerActivity.CPU]) as p:
    (a @ a).sum().item()
print(torch.__version__, "kernels that Kineto recorded:", sum(e.device_type == torch.autograd.DeviceType.CUDA for e in p.events()))
