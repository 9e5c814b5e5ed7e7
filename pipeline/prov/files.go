package prov

import (
	"fmt"
	"io/fs"
	"os"

	"anvil/pipeline/digest"
	"anvil/pipeline/internal/disk"
)

func isTemp(base string) bool { return disk.IsTemp(base) }

// Files hashes every file that run.json must name, by its path from the run's
// folder.
func Files(root *os.Root) (map[string]digest.Digest, error) {
	files := map[string]digest.Digest{}
	err := fs.WalkDir(root.FS(), ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name == ArtifactsFolder {
			return fs.SkipDir
		}
		if e.IsDir() || !Named(name) {
			return nil
		}
		d, err := hashFile(root, name)
		if err != nil {
			return fmt.Errorf("hash %s: %w", name, err)
		}
		files[name] = d
		return nil
	})
	return files, err
}

func hashFile(root *os.Root, name string) (d digest.Digest, err error) {
	f, err := root.Open(name)
	if err != nil {
		return d, err
	}
	defer f.Close()
	d, _, err = digest.FromReader(f)
	return d, err
}
