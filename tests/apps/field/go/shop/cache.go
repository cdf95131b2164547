package shop

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/gomodule/redigo/redis"
	goredis "github.com/redis/go-redis/v9"
)

var redisAddress = "127.0.0.1:" + os.Getenv("REDIS_PORT")

type goRedis struct{ *goredis.Client }

// GoRedis is a pool of go-redis.
func GoRedis() Cache { return goRedis{goredis.NewClient(&goredis.Options{Addr: redisAddress})} }

func (r goRedis) Get(ctx context.Context, key string) (string, error) {
	value, err := r.Client.Get(ctx, key).Result()
	if errors.Is(err, goredis.Nil) {
		err = nil
	}
	return value, err
}

func (r goRedis) Set(ctx context.Context, key, value string) error {
	return r.Client.Set(ctx, key, value, time.Minute).Err()
}

func (r goRedis) Del(ctx context.Context, key string) error {
	_, err := r.TxPipelined(ctx, func(pipe goredis.Pipeliner) error {
		pipe.Del(ctx, key)
		pipe.Incr(ctx, "sold:"+key)
		return nil
	})
	return err
}

func (r goRedis) Incr(ctx context.Context, key string) (int64, error) {
	return r.Client.Incr(ctx, key).Result()
}

type redigo struct{ *redis.Pool }

// Redigo is a pool of redigo.
func Redigo() Cache {
	dial := func() (redis.Conn, error) { return redis.Dial("tcp", redisAddress) }
	return redigo{&redis.Pool{MaxIdle: 10, IdleTimeout: time.Minute, Dial: dial}}
}

func (r redigo) do(command string, args ...any) (any, error) {
	conn := r.Pool.Get()
	defer conn.Close()
	return conn.Do(command, args...)
}

func (r redigo) Get(_ context.Context, key string) (string, error) {
	value, err := redis.String(r.do("GET", key))
	if errors.Is(err, redis.ErrNil) {
		err = nil
	}
	return value, err
}

func (r redigo) Set(_ context.Context, key, value string) error {
	_, err := r.do("SET", key, value, "EX", 60)
	return err
}

func (r redigo) Del(_ context.Context, key string) error {
	_, err := r.do("DEL", key)
	return err
}

func (r redigo) Incr(_ context.Context, key string) (int64, error) {
	return redis.Int64(r.do("INCR", key))
}
