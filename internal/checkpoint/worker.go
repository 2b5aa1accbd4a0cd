package checkpoint

import "sync"

// worker does jobs one after the other, on a goroutine that lives while there
// are any. Only one goroutine gives it jobs and waits for them.
type worker struct {
	wg sync.WaitGroup

	mu      sync.Mutex
	queue   []func()
	running bool
}

func (w *worker) do(job func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.queue = append(w.queue, job)
	if !w.running {
		w.running = true
		w.wg.Go(w.run)
	}
}

func (w *worker) run() {
	for job := w.next(); job != nil; job = w.next() {
		job()
	}
}

func (w *worker) next() func() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.queue) == 0 {
		w.running = false
		return nil
	}
	job := w.queue[0]
	w.queue = w.queue[1:]
	return job
}

// wait returns when all jobs are done.
func (w *worker) wait() { w.wg.Wait() }
