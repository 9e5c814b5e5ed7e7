package main

import (
	"slices"
	"testing"
)

func TestACommaInsideAChildsIDDividesNothing(t *testing.T) {
	for in, want := range map[string][]string{
		"grade":                                {"grade"},
		"grade,summarize":                      {"grade", "summarize"},
		"measure[concurrency=4,rep=2]":         {"measure[concurrency=4,rep=2]"},
		"measure[concurrency=4,rep=2],grade,x": {"measure[concurrency=4,rep=2]", "grade", "x"},
		"a]b,c":                                {"a]b", "c"},
	} {
		var got []string
		if err := (stageList{&got}).Set(in); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q gives %q, %v, want %q", in, got, err, want)
		}
	}
}

func TestAnEmptyStageIDIsAMistake(t *testing.T) {
	for _, in := range []string{"", "grade,", ",grade", "a,,b"} {
		var got []string
		if err := (stageList{&got}).Set(in); err == nil {
			t.Errorf("%q was taken as %q", in, got)
		}
	}
}
