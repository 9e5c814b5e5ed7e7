// Package derive turns evidence into figures: the table of metrics, the verdict
// functions of the graders, the assembly of the final record, and the check
// that makes all of it again.
//
// Everything here is a function of its inputs: no clock, host, run or random
// number enters, so that the same evidence gives the same bytes. The kinds
// grade, summarize and validate are thin around this package, and the command
// line calls [Validate] for what it verifies.
package derive
