package jsonview

// What a Value holds has been validated: walking it again only has to find ends.

// pick fills out with the members of the validated object that b begins with.
func pick(b []byte, keys []string, out []Value) {
	i := space(b, 1)
	for b[i] != '}' {
		end := validString(b, i)
		key := b[i+1 : end-1]
		i = space(b, space(b, end)+1) // over the colon
		end = validEnd(b, i)
		if k := index(keys, key); k >= 0 {
			out[k] = Value{b[i:end]}
		}
		i = space(b, end)
		if b[i] == ',' {
			i = space(b, i+1)
		}
	}
}

// validEnd returns the offset behind the validated value at i.
func validEnd(b []byte, i int) int {
	switch b[i] {
	case '"':
		return validString(b, i)
	case '{', '[':
		return validNest(b, i)
	}
	for i < len(b) && b[i] != ',' && b[i] != '}' && b[i] != ']' && b[i] > ' ' {
		i++
	}
	return i
}

func validNest(b []byte, i int) int {
	for depth := 0; ; {
		switch b[i] {
		case '"':
			i = validString(b, i)
			continue
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		}
		i++
		if depth == 0 {
			return i
		}
	}
}

func validString(b []byte, i int) int {
	for i++; b[i] != '"'; i++ {
		if b[i] == '\\' {
			i++
		}
	}
	return i + 1
}
