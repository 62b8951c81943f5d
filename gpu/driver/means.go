package driver

// Means says by what GPUs are asked for in this build of gpubuild.
func Means() string {
	if builtIn {
		return "NVML, else nvidia-smi"
	}
	return "nvidia-smi"
}
