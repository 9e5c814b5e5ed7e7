package derive

// Unlooked are the rules of Validate that find no fault: what the record stands
// on, or how it was made, is not here to be looked at, as of an imported record,
// or was made under another contract. They keep it below level 3.
func Unlooked() []string { return []string{"absent", "contract", "not-rederived"} }
