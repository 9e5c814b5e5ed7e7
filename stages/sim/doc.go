// Package sim is anvil's embedded engine: an OpenAI-compatible server that
// simulates a language model behind a real socket, with a declared latency
// model, a prefix cache, answers that follow documented rules, and faults on
// request. It exists so that every client path can be run and checked on a
// machine without an accelerator. It measures nothing and says so in every
// response: the header X-Anvil-Simulated, system_fingerprint, /version.
//
// # Time
//
// The engine has Slots servers and one first-in-first-out queue. A request
// that finds a slot free begins at once, else when its turn comes; one that
// finds the queue full is refused with 503. Having begun, it prefills the
// tokens of its prompt that the prefix cache does not hold at PrefillTokS, and
// then makes one token after the other at DecodeTokS; an event leaves when the
// last of its tokens is made. Rates are those of one slot and do not fall with
// the number of busy ones. What a request waits for is the planned end of
// those before it, never the moment when a late goroutine noticed: planned
// times are absolute and do not drift. [Plan] is that model as a pure function.
//
// The prefix cache is read and filled in order of arrival, when a request is
// admitted. Therefore the duration of a request depends on the configuration,
// the prompts and the order of arrival alone, and on no clock.
package sim
