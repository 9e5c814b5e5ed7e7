package schemas

import "testing"

// What a command pays before it has read a plan: every configuration schema
// compiled from nothing.
func BenchmarkCompileConfigurations(b *testing.B) {
	for b.Loop() {
		documents.Clear()
		c := newAssembler()
		for _, id := range []ID{
			"anvil.plan-top/v1", "anvil.plan-stage/v1", "anvil.endpoint/v1", "anvil.measure-config/v1", "anvil.scout-config/v1",
			"anvil.grade-config/v1", "anvil.verify-weights-config/v1", "anvil.import-config/v1",
		} {
			if _, err := c.at(base + id.FileName() + "#"); err != nil {
				b.Fatal(err)
			}
		}
	}
}
