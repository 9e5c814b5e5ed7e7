package engine

type generateSSE struct{ openaiChat }
