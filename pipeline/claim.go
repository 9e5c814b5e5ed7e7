package pipeline

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"anvil/pipeline/digest"
	"anvil/pipeline/internal/disk"
	"anvil/pipeline/prov"
	"anvil/pipeline/stage"
)

// ClaimName is the file that says who executes an attempt. It is made with
// O_EXCL: whoever comes second publishes nothing.
const ClaimName = "claim.json"

// A Claim is claim.json (anvil.claim/v1).
type Claim struct {
	Schema    string     `json:"schema"`
	Token     string     `json:"token"`
	Run       string     `json:"run"`
	Stage     string     `json:"stage"`
	Attempt   int        `json:"attempt"`
	Host      string     `json:"host"`
	PID       int        `json:"pid"`
	ClaimedAt stage.Time `json:"claimed_at"`

	// What the attempt was told: all that enters its key, and "with" whole, with
	// what is policy and cosmetic. Who decodes what a killed attempt left does it
	// under these, never under what the plan says by then.
	Kind     string          `json:"kind"`
	Contract int             `json:"contract"`
	Key      digest.Digest   `json:"key"`
	Salt     string          `json:"salt"`
	Config   json.RawMessage `json:"config"` // as it enters the key
	With     json.RawMessage `json:"with"`
	Inputs   []prov.Input    `json:"inputs"`
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
	if err := a.storeSets(); err != nil {
		return err
	}
	raw, err := json.MarshalIndent(a.claimed(), "", "  ")
	if err != nil {
		return fmt.Errorf("claim %s: %w", a.dir, err)
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

func (a *attempt) claimed() Claim {
	me := a.e.holder()
	c := Claim{
		Schema: ClaimSchema, Token: a.token, Run: a.runID, Stage: a.n.ID, Attempt: a.number, Host: me.Host, PID: me.PID, ClaimedAt: me.Since,
		Kind: a.n.spec.Name, Contract: a.n.spec.Contract, Key: a.b.key, Salt: a.e.plan.Salt,
		Config: a.n.KeyConfig, With: a.n.With, Inputs: a.b.inputs,
	}
	if c.Inputs == nil {
		c.Inputs = []prov.Input{}
	}
	return c
}

// storeSets stores the limitation sets of what a stage reads: those that the
// executor added to are objects only at the run's end, and who walks a closure,
// or decodes what a killed attempt left, needs them before.
func (a *attempt) storeSets() error {
	for _, artifacts := range a.b.ports {
		for _, in := range artifacts {
			raw, _ := in.LimitationSet().Canonical()
			if _, err := a.e.x.Store.PutBytes(context.Background(), raw); err != nil {
				return err
			}
		}
	}
	return nil
}

// readClaim reads the claim of an attempt, as the journal knows it: a claim with
// another token or key was not the one under which the attempt ran.
func readClaim(root *os.Root, dir string, started prov.Line) (Claim, error) {
	var c Claim
	raw, err := disk.ReadFile(root, filepath.Join(dir, ClaimName))
	if err == nil {
		err = json.Unmarshal(raw, &c)
	}
	if err != nil {
		return c, err
	}
	if c.Token != started.Token || started.Key == nil || c.Key != *started.Key {
		return c, fmt.Errorf("%s is not the one that the journal names", ClaimName)
	}
	return c, nil
}

// told is what a claim says that its attempt was told, as a result would.
func (c Claim) told() *prov.Result {
	return &prov.Result{
		Run: c.Run, Stage: c.Stage, Kind: c.Kind, Contract: c.Contract, Attempt: c.Attempt,
		Key: c.Key, Config: c.Config, Salt: c.Salt, Inputs: c.Inputs,
	}
}
