package engine

import (
	"crypto/sha256"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// ignoreEmpty makes nil and empty slices equal.
func ignoreEmpty() cmp.Option { return cmpopts.EquateEmpty() }

func sum(s string) [32]byte { return sha256.Sum256([]byte(s)) }
