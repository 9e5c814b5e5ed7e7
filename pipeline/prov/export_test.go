package prov

import "anvil/pipeline/digest"

// Remember lets a Reader know a result that no store holds.
func (r *Reader) Remember(res *Result) digest.Digest {
	b, err := EncodeResult(*res)
	if err != nil {
		panic(err)
	}
	sum := digest.FromBytes(b)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.results[sum] = res
	return sum
}
