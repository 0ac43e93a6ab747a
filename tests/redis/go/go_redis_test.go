// Package redis_test talks to the server through go-redis, as applications do.
//
// The server is started by `python -m harness -- go test ./...`, which names its port.
package redis_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

var ctx = context.Background()

func options(protocol int) *redis.Options {
	port := os.Getenv("QUARTET_REDIS_PORT")
	if port == "" {
		port = "6379"
	}
	return &redis.Options{Addr: net.JoinHostPort("127.0.0.1", port), Protocol: protocol, DB: 4, MaxRetries: -1, ReadTimeout: time.Minute}
}

// both runs a test over RESP2 and RESP3, each time with an empty database.
func both(t *testing.T, test func(t *testing.T, client *redis.Client)) {
	for _, protocol := range []int{2, 3} {
		t.Run(fmt.Sprintf("resp%d", protocol), func(t *testing.T) {
			client := redis.NewClient(options(protocol))
			defer client.Close()
			must(t, client.FlushDB(ctx).Err())
			test(t, client)
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func equal(t *testing.T, observed, expected any) {
	t.Helper()
	if !reflect.DeepEqual(observed, expected) {
		t.Fatalf("observed %#v, expected %#v", observed, expected)
	}
}

func TestHandshakeNamesTheConnection(t *testing.T) {
	for _, protocol := range []int{2, 3} {
		with := options(protocol)
		with.ClientName = "worker"
		client := redis.NewClient(with)
		equal(t, client.ClientGetName(ctx).Val(), "worker")
		equal(t, client.Ping(ctx).Val(), "PONG")
		client.Close()
	}
}

func TestManyConnectionsAtOnce(t *testing.T) {
	both(t, func(t *testing.T, client *redis.Client) {
		var all sync.WaitGroup
		for range 64 {
			all.Go(func() {
				if err := client.Incr(ctx, "n").Err(); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		equal(t, client.Get(ctx, "n").Val(), "64")
	})
}

func TestStrings(t *testing.T) {
	both(t, func(t *testing.T, client *redis.Client) {
		equal(t, client.Set(ctx, "k", "v", 100*time.Second).Val(), "OK")
		equal(t, client.Get(ctx, "k").Val(), "v")
		// No time passes within a transaction.
		var left *redis.DurationCmd
		_, err := client.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
			pipe.Expire(ctx, "k", 100*time.Second)
			left = pipe.TTL(ctx, "k")
			return nil
		})
		equal(t, err, nil)
		equal(t, left.Val(), 100*time.Second)
		equal(t, client.SetNX(ctx, "k", "w", 0).Val(), false)
		equal(t, client.Get(ctx, "none").Err(), redis.Nil)
		equal(t, client.MGet(ctx, "k", "none").Val(), []any{"v", nil})
		equal(t, client.IncrByFloat(ctx, "f", 1.5).Val(), 1.5)
		equal(t, client.GetDel(ctx, "k").Val(), "v")
	})
}

func TestHashes(t *testing.T) {
	both(t, func(t *testing.T, client *redis.Client) {
		equal(t, client.HSet(ctx, "h", "a", 1, "b", "two").Val(), int64(2))
		equal(t, client.HGetAll(ctx, "h").Val(), map[string]string{"a": "1", "b": "two"})
		equal(t, client.HMGet(ctx, "h", "b", "none").Val(), []any{"two", nil})
		var scanned struct {
			A int    `redis:"a"`
			B string `redis:"b"`
		}
		must(t, client.HGetAll(ctx, "h").Scan(&scanned))
		equal(t, scanned.A, 1)
	})
}

func TestListsAndSets(t *testing.T) {
	both(t, func(t *testing.T, client *redis.Client) {
		client.RPush(ctx, "l", 1, 2, 3)
		equal(t, client.LRange(ctx, "l", 0, -1).Val(), []string{"1", "2", "3"})
		equal(t, client.LPopCount(ctx, "l", 2).Val(), []string{"1", "2"})
		client.SAdd(ctx, "s", "a", "b")
		equal(t, client.SMembersMap(ctx, "s").Val(), map[string]struct{}{"a": {}, "b": {}})
		equal(t, client.SMIsMember(ctx, "s", "a", "x").Val(), []bool{true, false})
	})
}

func TestSortedSets(t *testing.T) {
	both(t, func(t *testing.T, client *redis.Client) {
		client.ZAdd(ctx, "z", redis.Z{Score: 1, Member: "a"}, redis.Z{Score: 2.5, Member: "b"}, redis.Z{Score: math.Inf(1), Member: "c"})
		equal(t, client.ZRangeWithScores(ctx, "z", 0, -1).Val(), []redis.Z{{Score: 1, Member: "a"}, {Score: 2.5, Member: "b"}, {Score: math.Inf(1), Member: "c"}})
		equal(t, client.ZScore(ctx, "z", "b").Val(), 2.5)
		equal(t, client.ZScore(ctx, "z", "none").Err(), redis.Nil)
		equal(t, client.ZPopMin(ctx, "z").Val(), []redis.Z{{Score: 1, Member: "a"}})
		key, popped, err := client.ZMPop(ctx, "max", 5, "z").Result()
		must(t, err)
		equal(t, key, "z")
		equal(t, len(popped), 2)
	})
}

func TestPipelineAnswersInOrder(t *testing.T) {
	both(t, func(t *testing.T, client *redis.Client) {
		replies, err := client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			for range 5000 {
				pipe.Incr(ctx, "n")
			}
			return nil
		})
		must(t, err)
		for index, reply := range replies {
			equal(t, reply.(*redis.IntCmd).Val(), int64(index+1))
		}
	})
}

func TestPipelineGoesOnAfterAnError(t *testing.T) {
	both(t, func(t *testing.T, client *redis.Client) {
		pipe := client.Pipeline()
		pipe.Set(ctx, "s", "v", 0)
		wrong := pipe.LPush(ctx, "s", "x")
		last := pipe.Get(ctx, "s")
		pipe.Exec(ctx)
		equal(t, wrong.Err().Error(), "WRONGTYPE Operation against a key holding the wrong kind of value")
		equal(t, last.Val(), "v")
	})
}

func TestTransaction(t *testing.T) {
	both(t, func(t *testing.T, client *redis.Client) {
		var incremented *redis.IntCmd
		_, err := client.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
			pipe.Set(ctx, "k", 41, 0)
			incremented = pipe.Incr(ctx, "k")
			pipe.HSet(ctx, "h", "a", 1)
			return nil
		})
		must(t, err)
		equal(t, incremented.Val(), int64(42))
	})
}

func TestTransactionAbortsWhole(t *testing.T) {
	both(t, func(t *testing.T, client *redis.Client) {
		_, err := client.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
			pipe.Set(ctx, "k", 1, 0)
			pipe.Do(ctx, "SET", "k")
			return nil
		})
		if err == nil {
			t.Fatal("no error")
		}
		equal(t, client.Exists(ctx, "k").Val(), int64(0))
	})
}

func TestWatchFailsWhenTouched(t *testing.T) {
	both(t, func(t *testing.T, client *redis.Client) {
		err := client.Watch(ctx, func(tx *redis.Tx) error {
			must(t, client.Set(ctx, "k", "theirs", 0).Err())
			_, err := tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
				pipe.Set(ctx, "k", "mine", 0)
				return nil
			})
			return err
		}, "k")
		equal(t, err, redis.TxFailedErr)
		equal(t, client.Get(ctx, "k").Val(), "theirs")
	})
}

func TestWatchedCounterLosesNoUpdate(t *testing.T) {
	both(t, func(t *testing.T, client *redis.Client) {
		add := func() error {
			for {
				err := client.Watch(ctx, func(tx *redis.Tx) error {
					value, err := tx.Get(ctx, "n").Int()
					if err != nil && !errors.Is(err, redis.Nil) {
						return err
					}
					_, err = tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error { return pipe.Set(ctx, "n", value+1, 0).Err() })
					return err
				}, "n")
				if !errors.Is(err, redis.TxFailedErr) {
					return err
				}
			}
		}
		var all sync.WaitGroup
		for range 5 {
			all.Go(func() {
				for range 20 {
					if err := add(); err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		equal(t, client.Get(ctx, "n").Val(), "100")
	})
}

func TestBlockingPop(t *testing.T) {
	both(t, func(t *testing.T, client *redis.Client) {
		served := make(chan []string, 1)
		go func() { served <- client.BLPop(ctx, 50*time.Second, "q").Val() }()
		must(t, client.RPush(ctx, "q", "job").Err())
		equal(t, <-served, []string{"q", "job"})
		equal(t, client.Do(ctx, "BLPOP", "q", "0.05").Err(), redis.Nil)
	})
}

func TestBlockingMoveAndSortedPop(t *testing.T) {
	both(t, func(t *testing.T, client *redis.Client) {
		client.RPush(ctx, "a", "x")
		equal(t, client.BLMove(ctx, "a", "b", "LEFT", "RIGHT", time.Second).Val(), "x")
		client.ZAdd(ctx, "z", redis.Z{Score: 7, Member: "m"})
		equal(t, client.BZPopMin(ctx, time.Second, "z").Val(), &redis.ZWithKey{Z: redis.Z{Score: 7, Member: "m"}, Key: "z"})
	})
}

func TestACancelledWaiterTakesNothing(t *testing.T) {
	both(t, func(t *testing.T, client *redis.Client) {
		with := options(2)
		with.ContextTimeoutEnabled = true
		other := redis.NewClient(with)
		short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		defer cancel()
		if err := other.BLPop(short, 0, "q").Err(); err == nil {
			t.Fatal("an element out of nothing")
		}
		other.Close()
		for deadline := time.Now().Add(time.Minute); strings.Contains(client.Info(ctx, "clients").Val(), "blocked_clients:1"); {
			if time.Now().After(deadline) {
				t.Fatal("the waiter never left")
			}
		}
		client.RPush(ctx, "q", "kept")
		equal(t, client.LRange(ctx, "q", 0, -1).Val(), []string{"kept"})
	})
}

func TestScanIterator(t *testing.T) {
	both(t, func(t *testing.T, client *redis.Client) {
		for index := range 500 {
			client.Set(ctx, fmt.Sprint("k", index), "v", 0)
		}
		found := map[string]bool{}
		iterator := client.Scan(ctx, 0, "k*", 50).Iterator()
		for iterator.Next(ctx) {
			found[iterator.Val()] = true
		}
		must(t, iterator.Err())
		equal(t, len(found), 500)
	})
}

func TestSetScanIterator(t *testing.T) {
	both(t, func(t *testing.T, client *redis.Client) {
		for index := range 700 {
			client.SAdd(ctx, "s", fmt.Sprint("m", index))
		}
		found := map[string]bool{}
		for iterator := client.SScan(ctx, "s", 0, "", 30).Iterator(); iterator.Next(ctx); {
			found[iterator.Val()] = true
		}
		equal(t, len(found), 700)
	})
}

func TestRawRepliesOfRESP3(t *testing.T) {
	client := redis.NewClient(options(3))
	defer client.Close()
	client.FlushDB(ctx)
	client.HSet(ctx, "h", "a", "1")
	client.ZAdd(ctx, "z", redis.Z{Score: 1.5, Member: "m"})
	equal(t, client.Do(ctx, "HGETALL", "h").Val(), any(map[any]any{"a": "1"}))
	equal(t, client.Do(ctx, "ZSCORE", "z", "m").Val(), any(1.5))
	equal(t, client.Do(ctx, "ZRANGE", "z", "0", "-1", "WITHSCORES").Val(), any([]any{[]any{"m", 1.5}}))
	equal(t, client.Do(ctx, "GET", "none").Err(), redis.Nil)
	equal(t, client.ConfigGet(ctx, "maxmemory-policy").Val(), map[string]string{"maxmemory-policy": "noeviction"})
}

func TestStreamsAreSharedByAGroup(t *testing.T) {
	both(t, func(t *testing.T, client *redis.Client) {
		must(t, client.XGroupCreateMkStream(ctx, "s", "g", "$").Err())
		id, err := client.XAdd(ctx, &redis.XAddArgs{Stream: "s", Values: []string{"a", "1"}}).Result()
		must(t, err)
		read, err := client.XReadGroup(ctx, &redis.XReadGroupArgs{Group: "g", Consumer: "c", Streams: []string{"s", ">"}}).Result()
		must(t, err)
		equal(t, read[0].Messages[0].ID, id)
		equal(t, read[0].Messages[0].Values, map[string]any{"a": "1"})
		equal(t, client.XPending(ctx, "s", "g").Val().Consumers, map[string]int64{"c": 1})
		claimed, start, err := client.XAutoClaim(ctx, &redis.XAutoClaimArgs{Stream: "s", Group: "g", Consumer: "d", Start: "-"}).Result()
		must(t, err)
		equal(t, claimed[0].ID+" "+start, id+" 0-0")
		equal(t, client.XAck(ctx, "s", "g", id).Val(), int64(1))
		equal(t, client.XInfoGroups(ctx, "s").Val()[0].EntriesRead, int64(1))
	})
}

func TestPlacesAreFound(t *testing.T) {
	both(t, func(t *testing.T, client *redis.Client) {
		client.GeoAdd(ctx, "g", &redis.GeoLocation{Name: "Palermo", Longitude: 13.361389, Latitude: 38.115556})
		client.GeoAdd(ctx, "g", &redis.GeoLocation{Name: "Catania", Longitude: 15.087269, Latitude: 37.502669})
		equal(t, client.GeoDist(ctx, "g", "Palermo", "Catania", "km").Val(), 166.2742)
		query := redis.GeoSearchQuery{Longitude: 15, Latitude: 37, Radius: 200, RadiusUnit: "km", Sort: "ASC"}
		equal(t, client.GeoSearch(ctx, "g", &query).Val(), []string{"Catania", "Palermo"})
	})
}

func TestErrorsCarryTheServersWords(t *testing.T) {
	both(t, func(t *testing.T, client *redis.Client) {
		equal(t, client.Do(ctx, "NOSUCH", "x").Err().Error(), "ERR unknown command 'NOSUCH', with args beginning with: 'x' ")
		client.Set(ctx, "k", "abc", 0)
		equal(t, client.Incr(ctx, "k").Err().Error(), "ERR value is not an integer or out of range")
	})
}

func TestServerDescriptions(t *testing.T) {
	both(t, func(t *testing.T, client *redis.Client) {
		commands, err := client.Command(ctx).Result()
		must(t, err)
		equal(t, commands["get"].Arity, int8(2))
		equal(t, commands["mset"].StepCount, int8(2))
		equal(t, client.ConfigSet(ctx, "slowlog-max-len", "128").Val(), "OK")
		if !strings.Contains(client.Info(ctx).Val(), "redis_version:") {
			t.Fatal("INFO names no version")
		}
	})
}

func TestMessagesReachASubscriber(t *testing.T) {
	both(t, func(t *testing.T, client *redis.Client) {
		listener := client.Subscribe(ctx, "news")
		defer listener.Close()
		_, err := listener.Receive(ctx)
		must(t, err)
		must(t, listener.PSubscribe(ctx, "n*"))
		_, err = listener.Receive(ctx)
		must(t, err)
		equal(t, client.Publish(ctx, "news", "hello").Val(), int64(2))
		channel := listener.Channel()
		for _, pattern := range []string{"", "n*"} {
			message := <-channel
			equal(t, []string{message.Pattern, message.Channel, message.Payload}, []string{pattern, "news", "hello"})
		}
		must(t, listener.Ping(ctx))
	})
}

func TestShardedMessagesReachASubscriber(t *testing.T) {
	both(t, func(t *testing.T, client *redis.Client) {
		listener := client.SSubscribe(ctx, "shard")
		defer listener.Close()
		_, err := listener.Receive(ctx)
		must(t, err)
		equal(t, client.SPublish(ctx, "shard", "hello").Val(), int64(1))
		message, err := listener.ReceiveMessage(ctx)
		must(t, err)
		equal(t, message.Payload, "hello")
	})
}

func TestAUserSeesOnlyItsKeys(t *testing.T) {
	both(t, func(t *testing.T, client *redis.Client) {
		must(t, client.Do(ctx, "ACL", "SETUSER", "gopher", "on", ">secret", "~go:*", "+@all").Err())
		defer client.Do(ctx, "ACL", "DELUSER", "gopher")
		with := *client.Options()
		with.Username, with.Password = "gopher", "secret"
		user := redis.NewClient(&with)
		defer user.Close()
		must(t, user.Set(ctx, "go:1", "v", 0).Err())
		err := user.Get(ctx, "other").Err()
		if err == nil || !strings.HasPrefix(err.Error(), "NOPERM") {
			t.Fatalf("observed %v", err)
		}
	})
}
