package shop

import (
	"context"
	"time"
)

// Batch sends a batch of jobs to workers over a channel with room, and takes their results from another.
type Batch struct {
	jobs chan job
}

type job struct {
	ctx    context.Context
	url    string
	result chan<- error
}

// NewBatch starts the workers.
func (s *Shop) NewBatch(workers int) *Batch {
	b := &Batch{jobs: make(chan job, 64)}
	for range workers {
		go func() {
			for j := range b.jobs {
				_, err := s.Fetch(j.ctx, j.url)
				j.result <- err
			}
		}()
	}
	return b
}

// Batch hands four calls over at once and waits for all of them.
func (s *Shop) Batch(ctx context.Context, b *Batch, id string) (a Answer, err error) {
	a.ID = id
	names := []string{"part0", "part1", "part2", "part3"}
	results := make(chan error, len(names))
	for _, name := range names {
		b.jobs <- job{ctx, leaf + "/" + name + "/" + id, results}
	}
	for range names {
		if failed := <-results; failed != nil {
			err = failed
		}
	}
	if err == nil {
		_, err = s.Cache.Incr(ctx, "seen:"+id)
	}
	return a, err
}

// Retry tries with a short time limit, then without.
func (s *Shop) Retry(ctx context.Context, id string) (a Answer, err error) {
	a.ID = id
	for _, attempt := range []string{"try0", "try1"} {
		short, cancel := context.WithTimeout(ctx, 15*time.Millisecond)
		a.Detail, err = s.Fetch(short, leaf+"/"+attempt+"/"+id)
		cancel()
		if err == nil {
			return a, nil
		}
		time.Sleep(2 * time.Millisecond)
	}
	a.Detail, err = s.Fetch(ctx, leaf+"/last/"+id)
	return a, err
}
