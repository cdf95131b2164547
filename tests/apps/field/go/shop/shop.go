// Package shop has what the Go services do for each route, whatever their framework and drivers are.
package shop

import (
	"context"
	"fmt"
	"os"
	"time"

	"golang.org/x/sync/errgroup"
)

// Store is a database, by one of its drivers.
type Store interface {
	Item(ctx context.Context, id string) (name string, stock int, err error)
	Order(ctx context.Context, id string) error   // a transaction
	Restock(ctx context.Context, id string) error // one statement
}

// Cache is Redis, by one of its clients.
type Cache interface {
	Get(ctx context.Context, key string) (string, error)
	Set(ctx context.Context, key, value string) error
	Del(ctx context.Context, key string) error
	Incr(ctx context.Context, key string) (int64, error)
}

// Shop is one service. Fetch calls another service, or Back does if it is another way to call the back.
type Shop struct {
	Cache Cache
	Store Store
	Fetch func(ctx context.Context, url string) (string, error)
	Back  func(ctx context.Context, id string) (string, error)
	tasks chan func()
}

var leaf, back = os.Getenv("LEAF_URL"), os.Getenv("BACK_URL")

// New starts eight workers, to which Work hands its calls over.
func New(cache Cache, store Store, fetch func(context.Context, string) (string, error)) *Shop {
	s := &Shop{Cache: cache, Store: store, Fetch: fetch, tasks: make(chan func())}
	s.Back = func(ctx context.Context, id string) (string, error) { return fetch(ctx, back+"/seq/"+id) }
	for range 8 {
		go func() {
			for task := range s.tasks {
				task()
			}
		}()
	}
	return s
}

// Answer is what all routes answer with.
type Answer struct {
	ID     string `json:"id"`
	Name   string `json:"name"`
	Stock  int    `json:"stock"`
	Detail string `json:"detail"`
}

// Handle answers a request for an item.
type Handle = func(context.Context, string) (Answer, error)

// Routes adds the routes that each framework serves.
func (s *Shop) Routes(add func(path string, handle Handle)) {
	add("/seq", s.Seq)
	add("/par", s.Par)
	add("/tx", s.Tx)
	add("/nest", s.Nest)
	add("/deep", s.Deep)
	add("/work", s.Work)
}

// Seq makes its calls one after the other.
func (s *Shop) Seq(ctx context.Context, id string) (a Answer, err error) {
	a.ID = id
	if _, err = s.Cache.Get(ctx, "item:"+id); err != nil {
		return a, err
	}
	if a.Name, a.Stock, err = s.Store.Item(ctx, id); err != nil {
		return a, err
	}
	if a.Detail, err = s.Fetch(ctx, leaf+"/price/"+id); err != nil {
		return a, err
	}
	return a, s.Cache.Set(ctx, "item:"+id, a.Name)
}

// Par makes its calls all at once.
func (s *Shop) Par(ctx context.Context, id string) (a Answer, err error) {
	a.ID = id
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { _, err := s.Cache.Get(ctx, "item:"+id); return err })
	group.Go(func() (err error) { a.Name, a.Stock, err = s.Store.Item(ctx, id); return err })
	group.Go(func() (err error) { a.Detail, err = s.Fetch(ctx, leaf+"/price/"+id); return err })
	group.Go(func() error { _, err := s.Fetch(ctx, leaf+"/stock/"+id); return err })
	return a, group.Wait()
}

// Tx has a transaction.
func (s *Shop) Tx(ctx context.Context, id string) (a Answer, err error) {
	a.ID = id
	if err = s.Store.Order(ctx, id); err != nil {
		return a, err
	}
	if err = s.Cache.Del(ctx, "item:"+id); err != nil {
		return a, err
	}
	a.Detail, err = s.Fetch(ctx, leaf+"/ship/"+id)
	return a, err
}

// Nest calls the back, and the leaf meanwhile.
func (s *Shop) Nest(ctx context.Context, id string) (a Answer, err error) {
	a.ID = id
	if _, err = s.Cache.Incr(ctx, "seen:"+id); err != nil {
		return a, err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() (err error) { a.Detail, err = s.Back(ctx, id); return err })
	group.Go(func() error { _, err := s.Fetch(ctx, leaf+"/price/"+id); return err })
	return a, group.Wait()
}

// Deep has a group in a group, and a call after both.
func (s *Shop) Deep(ctx context.Context, id string) (a Answer, err error) {
	a.ID = id
	outer, in := errgroup.WithContext(ctx)
	outer.Go(func() error {
		inner, in := errgroup.WithContext(in)
		inner.SetLimit(2)
		for i := range 3 {
			url := fmt.Sprintf("%s/part%d/%s", leaf, i, id)
			inner.Go(func() error { _, err := s.Fetch(in, url); return err })
		}
		return inner.Wait()
	})
	outer.Go(func() error { _, err := s.Cache.Get(in, "item:"+id); return err })
	if err = outer.Wait(); err != nil {
		return a, err
	}
	a.Name, a.Stock, err = s.Store.Item(ctx, id)
	return a, err
}

// Work hands its calls to the workers that all requests share, and waits for them.
func (s *Shop) Work(ctx context.Context, id string) (a Answer, err error) {
	a.ID = id
	done := make(chan error, 2)
	s.tasks <- func() { _, err := s.Fetch(ctx, leaf+"/print/"+id); done <- err }
	s.tasks <- func() { done <- s.Store.Restock(ctx, id) }
	for range 2 {
		if err = <-done; err != nil {
			return a, err
		}
	}
	_, err = s.Cache.Incr(ctx, "seen:"+id)
	return a, err
}

// Later answers at once; its calls come after the answer.
func (s *Shop) Later(id string) Answer {
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		time.Sleep(time.Millisecond)
		_ = s.Store.Restock(ctx, id)
		_ = s.Cache.Set(ctx, "later:"+id, "done")
		_, _ = s.Fetch(ctx, leaf+"/mail/"+id)
	}()
	return Answer{ID: id, Detail: "accepted"}
}

// Stream says its answer in three parts, with a call before each.
func (s *Shop) Stream(ctx context.Context, id string, say func(string)) error {
	name, _, err := s.Store.Item(ctx, id)
	if err != nil {
		return err
	}
	say(name)
	detail, err := s.Fetch(ctx, leaf+"/price/"+id)
	if err != nil {
		return err
	}
	say(detail)
	cached, err := s.Cache.Get(ctx, "item:"+id)
	say(cached)
	return err
}
