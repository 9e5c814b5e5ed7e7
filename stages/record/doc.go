// Package record holds the record kinds, anvil's own and those that others
// write: their types, their readers, the figures that their rows witness, and
// every invariant as a named rule. Check recognises a document by its content
// and reports each fault with its JSON pointer, the stored value and the
// recomputed one; the Build functions write the foreign kinds to the byte.
//
// Readers take whatever stands in a file: bad input is one problem, never a
// panic, and attempts are read in constant memory. Number text is kept as it is
// written.
package record
