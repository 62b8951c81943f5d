// Package driver says which NVIDIA driver and which GPUs a machine has. It owns the answer of the re-executed child and the reading of
// nvidia-smi's. Having no driver is an answer and no error, and costs no process.
//
// A driver's library can hang or end whoever calls it, so NVML is asked in a child of our own that is given Timeout; then nvidia-smi is;
// otherwise there is no device. Neither says that a program can use the GPU: that takes a kernel record (gpu/verify).
// Windows' nvml.dll is not asked yet, nvidia-smi is. Slices of a GPU (MIG) are not listed, only the GPU.
package driver
