package engine

import (
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// ignoreEmpty makes nil and empty slices equal.
func ignoreEmpty() cmp.Option { return cmpopts.EquateEmpty() }
