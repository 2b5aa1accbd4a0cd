package graph

// Task is one subtask of a stage.
type Task struct {
	Stage   *Stage
	Subtask int
}

// Regions divides the subtasks of the plan into those that exchange records,
// be it by way of others: Flink's pipelined regions. Subtasks are in order of
// stage and index, regions in order of their first one.
func (p *Plan) Regions() [][]Task {
	first := map[Task]Task{} // of each region: the root of a tree
	var root func(t Task) Task
	root = func(t Task) Task {
		if up, ok := first[t]; ok && up != t {
			first[t] = root(up)
			return first[t]
		}
		return t
	}
	join := func(a, b Task) { first[root(b)] = root(a) }
	for _, s := range p.Stages {
		for _, e := range s.Inputs {
			for from := range e.From.Parallelism {
				for to := range s.Parallelism {
					if e.Partition != Forward || from == to {
						join(Task{e.From, from}, Task{s, to})
					}
				}
			}
		}
	}
	var regions [][]Task
	at := map[Task]int{}
	for _, s := range p.Stages {
		for i := range s.Parallelism {
			t := Task{s, i}
			r, ok := at[root(t)]
			if !ok {
				r = len(regions)
				at[root(t)] = r
				regions = append(regions, nil)
			}
			regions[r] = append(regions[r], t)
		}
	}
	return regions
}
