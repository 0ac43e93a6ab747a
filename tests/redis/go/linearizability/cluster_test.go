package linearizability

import (
	"context"
	"fmt"
	"io"
	"math/rand"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/redis/go-redis/v9"
)

const (
	registersAtATime    = 24
	clientsPerRegister  = 3
	operationsPerClient = 60
	// A client waits this long for an answer; nodes that are cut off give none.
	answerTimeout = 3 * time.Second
)

// TestCluster is given the nodes of a running cluster by `cluster.faults`, which breaks it meanwhile: QUARTET_CLUSTER, addresses with
// commas between. It ends when its standard input has, and QUARTET_OPERATIONS are done. Registers are given up after a while for others,
// so that operations without an answer, of which each may come at any later time, do not gather at one.
func TestCluster(t *testing.T) {
	nodes := strings.Split(os.Getenv("QUARTET_CLUSTER"), ",")
	if nodes[0] == "" {
		t.Skip("run by cluster.faults: QUARTET_CLUSTER is not set")
	}
	wanted, err := strconv.ParseInt(os.Getenv("QUARTET_OPERATIONS"), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	seed, err := strconv.ParseInt(os.Getenv("QUARTET_SEED"), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	to := redis.Options{Password: os.Getenv("QUARTET_ROOT_KEY"), ReadTimeout: answerTimeout}
	var isOver atomic.Bool
	go func() {
		io.Copy(io.Discard, os.Stdin)
		isOver.Store(true)
	}()
	h := &history{began: time.Now()}
	var all sync.WaitGroup
	for place := range registersAtATime {
		chance := rand.New(rand.NewSource(seed + int64(place)))
		all.Go(func() {
			for turn := 0; !isOver.Load() || h.count() < wanted; turn++ {
				useRegister(h, to, nodes, fmt.Sprint("register", place, ":", turn), chance)
			}
		})
	}
	all.Wait()
	readOnceMore(t, h, to, nodes)
	operations := h.finished()
	t.Logf("%d operations on %d registers, %d of them without an answer, seed %d", len(operations), len(registers(operations)), h.open, seed)
	if h.open == 0 {
		t.Error("each operation had an answer: nothing was broken while they ran")
	}
	result, info := porcupine.CheckOperationsVerbose(register, operations, 5*time.Minute)
	if result != porcupine.Ok {
		path := filepath.Join(os.TempDir(), "quartet-linearizability.html")
		porcupine.VisualizePath(register, info, path)
		t.Fatalf("%s: no order explains the history, see %s", result, path)
	}
}

// useRegister has several clients use one register, each until its operations are done; after a failure at any node.
func useRegister(h *history, to redis.Options, nodes []string, key string, chance *rand.Rand) {
	var all sync.WaitGroup
	for range clientsPerRegister {
		own := rand.New(rand.NewSource(chance.Int63()))
		all.Go(func() {
			to := to
			for budget := operationsPerClient; budget > 0; {
				to.Addr = nodes[own.Intn(len(nodes))]
				session(h, to, key, own, &budget)
			}
		})
	}
	all.Wait()
}

func registers(operations []porcupine.Operation) map[string]bool {
	keys := map[string]bool{}
	for _, operation := range operations {
		keys[operation.Input.(input).key] = true
	}
	return keys
}

// readOnceMore reads each register, so that what was acknowledged and is lost shows. Nothing is broken any more.
func readOnceMore(t *testing.T, h *history, to redis.Options, nodes []string) {
	ctx := context.Background()
	for key := range registers(h.operations) {
		for try := 0; ; try++ {
			to.Addr = nodes[try%len(nodes)]
			if readOnce(ctx, h, to, key) == nil {
				break
			}
			if try == 600 {
				t.Fatal("a register could not be read although nothing is broken")
			}
			time.Sleep(100 * time.Millisecond)
		}
	}
}

func readOnce(ctx context.Context, h *history, to redis.Options, key string) error {
	to.MaxRetries = -1
	client := redis.NewClient(&to)
	defer client.Close()
	call := h.now()
	value, err := client.Get(ctx, key).Int()
	if err == redis.Nil {
		err = nil
	}
	h.record(int(h.clients.Add(1)), input{kind: get, key: key}, call, output{value: value}, err)
	return err
}

func (h *history) count() int64 {
	h.Lock()
	defer h.Unlock()
	return int64(len(h.operations))
}
