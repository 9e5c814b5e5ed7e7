package pipeline

import (
	"context"

	"anvil/pipeline/digest"
	"anvil/pipeline/prov"
	"anvil/pipeline/store"
)

// Collect removes from the store of a workspace what no run, no pin and no
// living process needs. It is safe beside a running plan.
func Collect(ctx context.Context, workspace string, s *store.Store, dryRun, emptyTrash bool) (store.Collected, error) {
	r := prov.NewReader(s.Peek())
	return s.GC(ctx, store.GCOptions{
		DryRun: dryRun, EmptyTrash: emptyTrash, MayRefer: prov.MayRefer,
		Roots: func(ctx context.Context) (results, objects []digest.Digest, err error) {
			return prov.Roots(ctx, workspace, r)
		},
		References: func(ctx context.Context, d digest.Digest) (results, objects []digest.Digest, err error) {
			return prov.References(ctx, r, d)
		},
	})
}
