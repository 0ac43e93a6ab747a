// Package linearizability runs concurrent clients against the real server and
// asks porcupine whether one order of all operations explains what each saw.
//
// A key is a register which also counts: SET, GET, INCR and a compare-and-set
// (WATCH GET MULTI SET EXEC). Keys are independent, so each is checked by itself.
// An operation whose reply never came may have happened at any later time or
// never: it stays open to the end, with an unknown reply. Kills of the server
// produce such operations. Known-bad histories show that the check can fail.
package linearizability

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/redis/go-redis/v9"
)

type kind int

const (
	set kind = iota
	get
	incr
	swap
)

// input is one request; from and to are the values of a compare-and-set, to is that of a SET.
type input struct {
	kind     kind
	key      string
	from, to int
}

// output is its reply. An absent key reads as 0.
type output struct {
	value   int
	swapped bool
	unknown bool
}

var register = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		byKey := map[string][]porcupine.Operation{}
		for _, operation := range history {
			key := operation.Input.(input).key
			byKey[key] = append(byKey[key], operation)
		}
		var parts [][]porcupine.Operation
		for _, part := range byKey {
			parts = append(parts, part)
		}
		return parts
	},
	Init: func() any { return 0 },
	Step: func(state, in, out any) (bool, any) {
		value, request, reply := state.(int), in.(input), out.(output)
		switch request.kind {
		case set:
			return true, request.to
		case get:
			return reply.unknown || reply.value == value, value
		case incr:
			return reply.unknown || reply.value == value+1, value + 1
		default:
			// EXEC may refuse although the value is equal: it was touched in between. It must not succeed on another value.
			if reply.unknown && request.from == value || reply.swapped && request.from == value {
				return true, request.to
			}
			return !reply.swapped, value
		}
	},
	DescribeOperation: func(in, out any) string { return fmt.Sprintf("%+v -> %+v", in, out) },
}

// patience is what is waited for on a slow machine.
const patience = 4 * time.Minute

func verdict(history []porcupine.Operation) porcupine.CheckResult {
	return porcupine.CheckOperationsTimeout(register, history, patience)
}

func operation(client int, in input, call int64, out output, back int64) porcupine.Operation {
	return porcupine.Operation{ClientId: client, Input: in, Call: call, Output: out, Return: back}
}

func TestKnownBadHistoriesAreRejected(t *testing.T) {
	write, read, add := input{kind: set, key: "k", to: 1}, input{kind: get, key: "k"}, input{kind: incr, key: "k"}
	bad := map[string][]porcupine.Operation{
		"a stale read":          {operation(0, write, 0, output{}, 1), operation(1, read, 2, output{value: 0}, 3)},
		"a read going back":     {operation(0, write, 0, output{}, 9), operation(1, read, 1, output{value: 1}, 2), operation(1, read, 3, output{value: 0}, 4)},
		"an invented value":     {operation(0, write, 0, output{}, 1), operation(1, read, 0, output{value: 7}, 2)},
		"a lost increment":      {operation(0, add, 0, output{value: 1}, 2), operation(1, add, 1, output{value: 1}, 3)},
		"a lost write":          {operation(0, write, 0, output{}, 1), operation(0, add, 2, output{value: 1}, 3)},
		"a blind swap":          {operation(0, write, 0, output{}, 1), operation(1, input{swap, "k", 5, 6}, 2, output{swapped: true}, 3)},
		"two winners of a swap": {operation(0, input{swap, "k", 0, 1}, 0, output{swapped: true}, 3), operation(1, input{swap, "k", 0, 2}, 1, output{swapped: true}, 4)},
	}
	for name, history := range bad {
		if verdict(history) != porcupine.Illegal {
			t.Errorf("%s was accepted", name)
		}
	}
}

func TestKnownGoodHistoriesAreAccepted(t *testing.T) {
	write, read := input{kind: set, key: "k", to: 1}, input{kind: get, key: "k"}
	good := map[string][]porcupine.Operation{
		"concurrent":       {operation(0, write, 0, output{}, 9), operation(1, read, 1, output{value: 0}, 2), operation(1, read, 3, output{value: 1}, 4)},
		"open and applied": {operation(0, write, 0, output{unknown: true}, 99), operation(1, read, 5, output{value: 1}, 6)},
		"open and lost":    {operation(0, write, 0, output{unknown: true}, 99), operation(1, read, 5, output{value: 0}, 6)},
	}
	for name, history := range good {
		if verdict(history) != porcupine.Ok {
			t.Errorf("%s was rejected", name)
		}
	}
}

// ---- the server

type server struct {
	data    string
	address atomic.Value
	process *exec.Cmd
}

func (s *server) start(t *testing.T) {
	t.Helper()
	if os.Getenv("QUARTET_TEST_TARGET") == "redis" {
		s.startRedis(t)
		return
	}
	binary := os.Getenv("QUARTET_BIN")
	if binary == "" {
		binary = filepath.Join("..", "..", "..", "..", "target", "release", "quartet")
	}
	s.process = exec.Command(binary, "serve", "--dev", "--data", s.data, "--listen-redis", "127.0.0.1:0", "--listen-http", "off",
		"--listen-dynamodb", "off", "--listen-fauna", "off", "--listen-keyvalue", "off", "--durability", "always")
	out, err := s.process.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	s.process.Stderr = s.process.Stdout
	if err := s.process.Start(); err != nil {
		t.Fatal(err)
	}
	lines, address := bufio.NewReader(out), regexp.MustCompile(`^redis\s+redis://(\S+)`)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatal("the server ended before it was ready")
		}
		if found := address.FindStringSubmatch(line); found != nil {
			s.address.Store(strings.TrimRight(found[1], "/"))
		}
		if strings.TrimSpace(line) == "ready" {
			go io.Copy(io.Discard, lines)
			return
		}
	}
}

func (s *server) startRedis(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	listener.Close()
	_, port, _ := net.SplitHostPort(address)
	s.process = exec.Command("redis-server", "--port", port, "--bind", "127.0.0.1", "--dir", s.data, "--save", "", "--appendonly", "yes", "--appendfsync", "always")
	if err := s.process.Start(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		client := redis.NewClient(&redis.Options{Addr: address, MaxRetries: -1})
		err := client.Ping(context.Background()).Err()
		client.Close()
		if err == nil {
			s.address.Store(address)
			return
		}
	}
	t.Fatal("redis-server did not start")
}

func (s *server) kill() {
	s.process.Process.Kill()
	s.process.Wait()
}

// quiet drops go-redis' own lines: refused connections are what a kill looks like.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

func TestMain(m *testing.M) {
	redis.SetLogger(quiet{})
	os.Exit(m.Run())
}

func started(t *testing.T) *server {
	s := &server{data: t.TempDir()}
	s.start(t)
	t.Cleanup(s.kill)
	return s
}

// ---- the workload

type history struct {
	sync.Mutex
	operations []porcupine.Operation
	open       int
	began      time.Time
	clients    atomic.Int64
	values     atomic.Int64
}

func (h *history) now() int64 { return int64(time.Since(h.began)) }

// record keeps a finished operation; an ambiguous one gets its end when the run is over.
func (h *history) record(client int, in input, call int64, out output, failed error) {
	back := h.now()
	if failed != nil {
		out, back = output{unknown: true}, -1
	}
	h.Lock()
	defer h.Unlock()
	if failed != nil {
		h.open++
	}
	h.operations = append(h.operations, operation(client, in, call, out, back))
}

func (h *history) finished() []porcupine.Operation {
	end := h.now() + 1
	for index := range h.operations {
		if h.operations[index].Return == -1 {
			h.operations[index].Return = end
		}
	}
	return h.operations
}

// session is one client of one key until its first failure: afterwards it counts as another client,
// because its last operation is still open.
func session(h *history, to redis.Options, key string, chance *rand.Rand, budget *int) {
	ctx := context.Background()
	to.MaxRetries, to.PoolSize, to.DialTimeout, to.DialerRetries = -1, 1, time.Second, 1
	client := redis.NewClient(&to)
	defer client.Close()
	if client.Ping(ctx).Err() != nil {
		time.Sleep(2 * time.Millisecond)
		return
	}
	number := int(h.clients.Add(1))
	for ; *budget > 0; *budget-- {
		in := input{kind: kind(chance.Intn(4)), key: key, to: int(h.values.Add(1)) * 1000}
		var out output
		var err error
		call := h.now()
		switch in.kind {
		case set:
			err = client.Set(ctx, key, in.to, 0).Err()
		case get:
			out.value, err = client.Get(ctx, key).Int()
			if errors.Is(err, redis.Nil) {
				err = nil
			}
		case incr:
			var value int64
			value, err = client.Incr(ctx, key).Result()
			out.value = int(value)
		case swap:
			out.swapped, err = compareAndSet(ctx, client, &in)
		}
		if wasRefused(err) {
			time.Sleep(20 * time.Millisecond)
			return
		}
		h.record(number, in, call, out, err)
		if err != nil {
			return
		}
	}
}

// wasRefused is true of answers that say that nothing was executed: no node is home, or its disk is full.
func wasRefused(err error) bool {
	return err != nil && (strings.HasPrefix(err.Error(), "MASTERDOWN") || strings.HasPrefix(err.Error(), "MISCONF"))
}

func compareAndSet(ctx context.Context, client *redis.Client, in *input) (bool, error) {
	err := client.Watch(ctx, func(tx *redis.Tx) error {
		text, err := tx.Get(ctx, in.key).Result()
		if err != nil && !errors.Is(err, redis.Nil) {
			return err
		}
		in.from, _ = strconv.Atoi(text)
		_, err = tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error { return pipe.Set(ctx, in.key, in.to, 0).Err() })
		return err
	}, in.key)
	if errors.Is(err, redis.TxFailedErr) {
		return false, nil
	}
	return err == nil, err
}

// seed decides what clients ask for; the order in which they are served is the machine's.
func seed() int64 {
	if chosen, err := strconv.ParseInt(os.Getenv("QUARTET_SEED"), 10, 64); err == nil {
		return chosen
	}
	return 1
}

func run(t *testing.T, s *server, keys, clientsPerKey, operationsPerClient, kills int) {
	t.Helper()
	seed := seed()
	h := &history{began: time.Now()}
	var all sync.WaitGroup
	var busy atomic.Int64
	for key := range keys {
		for client := range clientsPerKey {
			chance := rand.New(rand.NewSource(seed + int64(key*100+client)))
			busy.Add(1)
			all.Go(func() {
				defer busy.Add(-1)
				for budget := operationsPerClient; budget > 0; {
					to := redis.Options{Addr: s.address.Load().(string), ReadTimeout: time.Minute}
					session(h, to, fmt.Sprint("register", key), chance, &budget)
				}
			})
		}
	}
	chance := rand.New(rand.NewSource(seed))
	// By what has been done, and not by time: clients are in the midst of it, however quick the machine is.
	done, each := 0, keys*clientsPerKey*operationsPerClient/(kills+1)
	for ; done < kills; done++ {
		for wanted := int64(done*each + chance.Intn(each)); h.count() < wanted && busy.Load() > 0; {
			time.Sleep(100 * time.Microsecond)
		}
		s.kill()
		s.start(t)
	}
	all.Wait()
	operations := h.finished()
	t.Logf("%d operations, %d left open by %d kills, seed %d", len(operations), h.open, done, seed)
	if kills > 0 && h.open == 0 {
		t.Error("no operation was in flight at any kill: this run proved nothing")
	}
	result, info := porcupine.CheckOperationsVerbose(register, operations, patience)
	if result != porcupine.Ok {
		path := filepath.Join(os.TempDir(), "quartet-linearizability.html")
		porcupine.VisualizePath(register, info, path)
		t.Fatalf("%s: no order explains the history, see %s", result, path)
	}
}

func TestManyKeys(t *testing.T) { run(t, started(t), 8, 6, 100, 0) }

func TestOneHotKey(t *testing.T) { run(t, started(t), 1, 8, 500, 0) }

func TestKilledAndRestarted(t *testing.T) {
	for round := range 3 {
		t.Run(fmt.Sprint(round), func(t *testing.T) { run(t, started(t), 12, 3, 600, 5) })
	}
}
