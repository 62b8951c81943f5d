// Package driver says which NVIDIA driver and which GPUs a machine has, and samples these. Having no driver is an answer and no error, and
// costs no process. It owns the reading of nvidia-smi's answers, and the lines of the child that asks NVML.
//
// NVML is asked first, where this build has it (cgo on Linux) and the machine its library; it alone reports Xid errors, the processes of a
// GPU and its MIG instances. Else nvidia-smi is asked, which comes with every driver. Both are processes of their own, with a time limit:
// a driver's library can hang, or end whoever calls it. Neither says that a program can use the GPU: that takes a kernel record
// (gpu/verify).
package driver
