package shop

import (
	"context"
	"log"
	"time"

	"github.com/redis/rueidis"
)

type rueidisCache struct{ rueidis.Client }

// Rueidis has few connections for all goroutines: a goroutine of each connection writes what was put into its ring.
func Rueidis() Cache {
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{redisAddress}, DisableCache: true})
	if err != nil {
		log.Fatal(err)
	}
	return rueidisCache{client}
}

func (r rueidisCache) Get(ctx context.Context, key string) (string, error) {
	value, err := r.Do(ctx, r.B().Get().Key(key).Build()).ToString()
	if rueidis.IsRedisNil(err) {
		err = nil
	}
	return value, err
}

func (r rueidisCache) Set(ctx context.Context, key, value string) error {
	return r.Do(ctx, r.B().Set().Key(key).Value(value).Ex(time.Minute).Build()).Error()
}

func (r rueidisCache) Del(ctx context.Context, key string) error {
	for _, done := range r.DoMulti(ctx, r.B().Del().Key(key).Build(), r.B().Incr().Key("sold:"+key).Build()) {
		if err := done.Error(); err != nil {
			return err
		}
	}
	return nil
}

func (r rueidisCache) Incr(ctx context.Context, key string) (int64, error) {
	return r.Do(ctx, r.B().Incr().Key(key).Build()).ToInt64()
}
