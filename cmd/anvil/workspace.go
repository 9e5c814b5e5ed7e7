package main

import "path/filepath"

// storeFolder is the store below the workspace.
const storeFolder = ".anvil"

func (a *app) storeDir() string { return filepath.Join(a.workspace, storeFolder) }
