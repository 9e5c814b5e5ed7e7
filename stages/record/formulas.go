package record

// The formulas of records.md 4, in the order of operations that reproduces
// stored figures to the last digit. Times are in ms.

// Prefill is prompt tokens per second until the first output, queueing included.
func Prefill(promptTokens, firstOutputMS float64) float64 {
	return float64(promptTokens*1000) / firstOutputMS
}

// Decode is output tokens after the first per second of generation.
func Decode(outputTokens, generationMS float64) float64 {
	return float64((outputTokens-1)*1000) / generationMS
}

// TPOT is ms per output token after the first. It is not 1000/Decode: that
// rounds twice.
func TPOT(outputTokens, generationMS float64) float64 { return generationMS / (outputTokens - 1) }

// Throughput is output tokens per second of the whole cell.
func Throughput(outputTokens, wallMS float64) float64 { return outputTokens / (wallMS / 1000) }
