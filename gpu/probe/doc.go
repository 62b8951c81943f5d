// Package probe owns the C programs that witness what a process does on a GPU, builds them, and reads what they write.
//
// csrc has three programs. probe.c becomes a library that the CUDA driver itself loads into a process (CUDA_INJECTION64_PATH) and
// that writes CUPTI's kernel records as JSON lines. control.c becomes the positive control: a program that certainly runs a kernel.
// watch.c becomes the parent of the program that is watched, because only a parent knows whether children came and went unseen.
// For Vulkan, layer.c is a layer that the Vulkan loader puts into a process (VK_INSTANCE_LAYERS) and that writes the compute dispatches
// that completed in the same form, and control_vulkan.c is its control; vulkan.h has what they need of Vulkan's headers. Build and
// BuildFor compile them by the user's host compiler into a private directory that is named by a hash of the sources and the compiler;
// what was built is hashed, and checked before each use.
//
// A record file is named <pid>-<start time>-<PID namespace>.jsonl, without the last on Windows. Its lines begin with "event": injected (the
// heartbeat: version, pid, ppid, started, namespace, exe, exe_device, exe_inode, caller; forked for a fork of a recorded process),
// unavailable (step, rc, why) or recording (cupti, libcupti, libcuda, driver, callbacks, drivers), interposed (symbol, by), kernel (name,
// cut, device, context, stream, grid, block, start, end; count and total when launches were summed up), device (ordinal, uuid, name,
// major, minor), driver (drivers, nodes), dropped (count), bad-buffer (rc), note (why), end (flush, kernels, unfinished, dropped,
// accepted, lost_writes). Times are CUPTI's nanoseconds.
//
// Of Vulkan: recording has the engine that the program names; device its type, vendor, driver_id, driver_name, driver_info, api; a kernel
// is what completed of one pipeline since the line before: count, total, timed (how many of them the device's clock measured), shape
// (what the shader takes), start and end by the host's clock. "waited" follows: a device has said that they completed.
//
// The records are foreign bytes: the program under watch could write them itself. ParseRecords bounds and counts, it trusts nothing;
// what records mean is gpu/verify's business. A program that wants to forge records can: nothing here guards against that.
package probe
