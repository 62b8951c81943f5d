// Package install puts a CUDA toolkit into the user's own cache without admin rights. MakePlan says what a toolkit would be: which
// archives, where from, how large, under whose licences. Plan.Run fetches and checks them, and adds them to the toolkit's directory, of
// which there is one for each version and platform.
//
//   - wheel has the user's own pip fetch NVIDIA's pinned wheels;
//   - redist fetches archives of NVIDIA's redistributables: CUDA 12, of which no wheel has nvcc, and of CUDA 13 what is not pinned, or
//     where there is no pip;
//   - tree unpacks archives into one directory, and completes it.
//
// It never asks and never decides whether to fetch: the caller shows Plan.Lines and has the user's consent before it calls Run.
//
// It owns pins.toml and the directories toolkits/ and wheels/ of the cache. Files are added under a lock between processes, each whole,
// and the marker that names the parts is renamed into place last: a toolkit that was cut off before is none. Nothing is synced to the disk:
// of a machine that loses power in that second, only an nvcc, ptxas, fatbinary or cicc that is missing or empty is found. What is
// not pinned comes from NVIDIA's redistributables.
package install
