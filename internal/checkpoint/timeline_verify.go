package checkpoint

import "context"

// unverified takes data files as they are.
func unverified(context.Context, origin) error { return nil }

// verifyAll verifies the snapshots in the job's directory, and returns a verify
// that knows. It comes before the look: it may take so long that a running job
// deletes some and completes others meanwhile. Snapshots elsewhere, which no job
// deletes, are verified as they are met.
func verifyAll(ctx context.Context, s *start) (func(context.Context, origin) error, error) {
	if err := s.look(ctx); err != nil {
		return nil, err
	}
	damaged := map[Ref]error{}
	for i := range s.view.found {
		f := &s.view.found[i]
		if f.meta == nil {
			continue
		}
		err := verify(ctx, origin{found: f, blobs: s.Blobs, dir: f.ref.Path})
		if err != nil && !corrupt(err) {
			return nil, err
		}
		damaged[f.ref] = err
	}
	return func(ctx context.Context, o origin) error {
		if o.ref.External {
			return verify(ctx, o)
		}
		return damaged[o.ref]
	}, nil
}
