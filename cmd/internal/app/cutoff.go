package app

import (
	"crypto/sha256"
	"os"

	"gpubuild/buildenv/cache"
	"gpubuild/toolchain/cargo"
)

// underWay is a file that is there while cargo builds in a target directory, and stays where cargo did not end by itself: the next build knows by it that
// a build script may have been ended in the middle. Its own next run may take what is half for whole (seen: cudaforge 0.1.6 and an object file that nvcc
// had begun, "up-to-date, skipping compilation", and the program did not link).
func (j *journey) underWay() string { return j.lockPath() + ".building" }

// lockPath is where gpubuilds lock a target directory. It lies in our cache: a target directory that we made would lack what cargo puts into its own
// (CACHEDIR.TAG).
func (j *journey) lockPath() string {
	return j.host.Join(j.cacheDir, "locks", short(sha256.Sum256([]byte(j.host.Real(j.answers.Places.BuildDirectory)))))
}

// beginBuild leaves the mark; the answer takes it away again.
func (j *journey) beginBuild() (endedByItself func()) {
	path := j.underWay()
	err := cache.Make(j.host.Dir(path))
	if err == nil {
		err = os.WriteFile(path, nil, 0o600)
	}
	if err != nil {
		j.shell.Detail("should this build be interrupted, the next one will not know: %v", err)
	}
	return func() { _ = os.Remove(path) } // one that stays costs a look
}

// cutOff says whether the build script that last wrote to an OUT_DIR was ended before its own end, with the build that it was part of.
func (j *journey) cutOff(outDir string) bool {
	return j.host.IsFile(j.underWay()) && cargo.ScriptRan(j.host, outDir) != 0 && !cargo.ScriptFinished(j.host, outDir)
}
