// Package pipeline is the executor. It decides for every stage of a plan
// whether to run it, to restore what is known, or to take over what a base run
// observed; walks the graph; carries limitations from input to output; and
// writes down what was done so that a stranger can check it.
//
// It promises: nothing is executed before everything that an earlier run must
// supply was hashed; a stage can add limitations and can drop none; a crash at
// any point leaves the old state or the new one; and of two processes that
// would do the same work, one does it and the other names it.
package pipeline
