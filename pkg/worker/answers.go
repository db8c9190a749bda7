package worker

// byLane puts answers, which come in the order of the request, in the order of the lanes.
func byLane[T any](answers []T, order []int) []T {
	if len(answers) != len(order) {
		return make([]T, len(order))
	}
	out := make([]T, len(order))
	for i, lane := range order {
		out[lane] = answers[i]
	}
	return out
}
