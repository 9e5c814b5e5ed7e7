package pipeline

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"anvil/pipeline/prov"
	"anvil/pipeline/stage"
)

// ClaimName is the file that says who executes an attempt. It is made with
// O_EXCL: whoever comes second publishes nothing.
const ClaimName = "claim.json"

// A Claim is claim.json (anvil.claim/v1).
type Claim struct {
	Schema    string    `json:"schema"`
	Token     string    `json:"token"`
	Run       string    `json:"run"`
	Stage     string    `json:"stage"`
	Attempt   int       `json:"attempt"`
	Host      string    `json:"host"`
	PID       int       `json:"pid"`
	ClaimedAt time.Time `json:"claimed_at"`
}

// ClaimSchema is the id of claim.json.
const ClaimSchema = "anvil.claim/v1"

// claim makes the attempt ours: its folder, its claim, its line in the journal.
func (a *attempt) claim() (err error) {
	d := a.folder.disk
	if err := d.MkdirAll(a.dir); err != nil {
		return err
	}
	if a.token, err = token(a.e.x.entropy()); err != nil {
		return fmt.Errorf("claim %s: %w", a.dir, err)
	}
	me := a.e.holder()
	raw, err := json.MarshalIndent(Claim{ClaimSchema, a.token, a.runID, a.n.ID, a.number, me.Host, me.PID, me.Since}, "", "  ")
	if err != nil {
		return err
	}
	if err := d.WriteNew(filepath.Join(a.dir, ClaimName), append(raw, '\n')); err != nil {
		return fmt.Errorf("claim attempt %d of %s: %w", a.number, a.n.ID, err)
	}
	err = a.folder.journal.Append(prov.Line{
		Event: prov.StageStarted, Stage: a.n.ID, Kind: a.n.spec.Name, Attempt: a.number, Key: &a.b.key, Token: a.token,
	})
	if err == nil && a.n.spec.Class == stage.Observational {
		err = a.folder.journal.Sync()
	}
	return err
}

func readClaim(root *os.Root, dir string) (Claim, error) {
	var c Claim
	raw, err := root.ReadFile(filepath.Join(dir, ClaimName))
	if err == nil {
		err = json.Unmarshal(raw, &c)
	}
	return c, err
}
