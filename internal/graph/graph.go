// Package graph is the logical graph of a job: operators by id, edges between
// them, and their division into stages. It knows no type of a record: what an
// operator does is opaque here (Node.Body, Edge.Body).
package graph

// Partition says how records are distributed over the subtasks of the
// consumer.
type Partition string

const (
	// Forward hands a record to the subtask of the same index; producer and
	// consumer have one parallelism and share a stage where possible.
	Forward Partition = "forward"
	// Hash sends all records of a key to one subtask.
	Hash Partition = "hash"
	// Rebalance deals batches out in turn.
	Rebalance Partition = "rebalance"
	// Broadcast sends every record to every subtask.
	Broadcast Partition = "broadcast"
)

// Role is the role of a node.
type Role string

// The roles: where records come from, what is done with them, where they go.
const (
	Source   Role = "source"
	Operator Role = "operator"
	Sink     Role = "sink"
)

// Node is an operator.
type Node struct {
	// ID is unique in the job and stable over restarts: state is matched by it.
	ID string
	// Name is shown to people; the ID where none is given.
	Name string
	// Kind says what it is: "map", "process", "aggregate", "kafka source".
	Kind string
	Role Role
	// Stateful nodes need an explicit id.
	Stateful bool
	Keyed    bool
	// Parallelism is the number of subtasks, 0 = the job's.
	Parallelism int
	// Inputs are the incoming edges, in port order.
	Inputs []Edge
	// Site is the place in the user's program, "file.go:12".
	Site string
	// Options are shown by the graph command.
	Options map[string]string
	// Body is what the host makes subtasks from (a stage.Body).
	Body any
}

// Edge is an incoming edge of a node.
type Edge struct {
	// From is the producing node.
	From *Node
	// Tag names a side output of From; "" is the main one.
	Tag       string
	Partition Partition
	// Second edges lead to the second input of an operator that has two.
	Second bool
	// Body makes writers for a non-chained edge (a stage.EdgeBody).
	Body any
}

// Graph is a job: its operators in the order of their creation, which puts a
// producer before its consumers.
type Graph struct {
	// Job names the job; its snapshots lie under this name.
	Job   string
	Nodes []*Node
}

// Label is what people call the node: its name, or its id.
func (n *Node) Label() string {
	if n.Name != "" {
		return n.Name
	}
	return n.ID
}
