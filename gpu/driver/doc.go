// Package driver says which NVIDIA driver and which GPUs a machine has, and samples these. It owns the reading of nvidia-smi's answers.
// Having no driver is an answer and no error, and costs no process.
//
// nvidia-smi comes with every driver and is a process of its own: a driver's library can hang or end whoever calls it. It does not say
// that a program can use the GPU: that takes a kernel record (gpu/verify). Slices of a GPU (MIG) are not listed, only the GPU.
package driver
