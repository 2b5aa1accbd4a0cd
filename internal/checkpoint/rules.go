package checkpoint

// rules is a set of rules that are not followed. Tests switch rules off, one
// by one, to show what each is for; outside of them the set is empty.
type rules uint32

const (
	// fenceRecords: records but claims are appended only while one's own claim
	// is the newest.
	fenceRecords rules = 1 << iota
	// voidByAttempt: what the newest attempt does not descend from is void,
	// however large its id.
	voidByAttempt
	// followFinal: what a stopping or stopped record names is gone on from.
	followFinal
	// followRestored: what the newest restored record names is gone on from.
	followRestored
	// askBeforeRewind: -s does not go back behind live snapshots by itself.
	askBeforeRewind
	// refuseVoid: -s takes no void snapshot with committables not proven to be
	// committed.
	refuseVoid
	// refuseDeleted: -s takes no snapshot that the completion of another one
	// deletes.
	refuseDeleted
	// refuseUnmarked: -s takes no snapshot from elsewhere with committables and
	// without mark.
	refuseUnmarked
	// proveByLedger: a committable that a descendant no longer lists is
	// committed.
	proveByLedger
	// proveByDescent: other snapshots than descendants prove nothing.
	proveByDescent
	// lineageByPlace: a directory under another name has a lineage of its own.
	lineageByPlace
	// leaveOthers: of former lineages only what this ledger's attempts opened,
	// under this name, is ended.
	leaveOthers
	// countReferences: a shared file goes with the last snapshot that refers to
	// it.
	countReferences
)

func (r rules) off(rule rules) bool { return r&rule != 0 }
