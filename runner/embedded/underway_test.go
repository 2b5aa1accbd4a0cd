package embedded

// SnapshotsUnderWay is how many snapshots have been triggered and have not ended.
func (j *Job) SnapshotsUnderWay() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.current == nil {
		return 0
	}
	return j.current.coordinator.Status().InProgress
}
