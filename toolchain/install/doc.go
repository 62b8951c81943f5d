// Package install puts a CUDA toolkit into the user's own cache without admin rights. MakePlan says what a toolkit would be: which
// archives, where from, how large, under whose licences. Plan.Run fetches and checks them, and adds them to the toolkit's directory, of
// which there is one for each version and platform.
//
//   - wheel has the user's own pip fetch NVIDIA's pinned wheels;
//   - redist fetches archives of NVIDIA's redistributables: CUDA 12, of which no wheel has nvcc, and CUDA 13 where there is no pip;
//   - tree unpacks archives into one directory, completes it, and checks it later.
//
// It never asks and never decides whether to fetch: the caller shows Plan.Lines and has the user's consent before it calls Run.
//
// It owns pins.toml and the directories toolkits/ and wheels/ of the cache. Files are added under a lock between processes, each whole,
// and a marker that lists them is renamed into place last: what no marker lists does not count, so an installation that is cut off leaves
// the toolkit as it was. Nothing is synced to the disk, so a machine that loses power in that second can leave a damaged toolkit;
// tree.Verify finds it, and the command line installs such a toolkit again. The wheels of releases and platforms that are not pinned are
// those that the user's pip names, with the hashes of its index.
package install
