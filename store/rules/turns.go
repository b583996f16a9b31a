package rules

// TurnsBefore estimates how many jobs of other lanes go before one that has ahead jobs
// of its own lane before it, as lanes take turns. due is how many jobs each other lane
// has. Half of the lanes that have more than ahead count as one turn further.
func TurnsBefore(ahead int64, due []int64) int64 {
	var before, longer int64
	for _, n := range due {
		before += min(n, ahead)
		if n > ahead {
			longer++
		}
	}
	return before + longer/2
}
