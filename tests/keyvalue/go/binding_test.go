// FoundationDB's Go binding, unmodified, linked with our libfdb_c.so.
package keyvalue

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/apple/foundationdb/bindings/go/src/fdb"
	"github.com/apple/foundationdb/bindings/go/src/fdb/directory"
	"github.com/apple/foundationdb/bindings/go/src/fdb/subspace"
	"github.com/apple/foundationdb/bindings/go/src/fdb/tuple"
)

const conflict = 1020

var database fdb.Database

func TestMain(m *testing.M) {
	fdb.MustAPIVersion(730)
	database = fdb.MustOpenDefault()
	os.Exit(m.Run())
}

// A subspace of the test's own, empty.
func space(t *testing.T) subspace.Subspace {
	t.Helper()
	own := subspace.Sub(t.Name())
	write(t, func(tr fdb.Transaction) { tr.ClearRange(own) })
	return own
}

func write(t *testing.T, body func(tr fdb.Transaction)) {
	t.Helper()
	_, err := database.Transact(func(tr fdb.Transaction) (any, error) {
		body(tr)
		return nil, nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func rows(t *testing.T, exact fdb.ExactRange, options fdb.RangeOptions) []fdb.KeyValue {
	t.Helper()
	found, err := database.ReadTransact(func(tr fdb.ReadTransaction) (any, error) {
		return tr.GetRange(exact, options).GetSliceWithError()
	})
	if err != nil {
		t.Fatal(err)
	}
	return found.([]fdb.KeyValue)
}

func TestRangesSelectorsAndOwnWrites(t *testing.T) {
	own := space(t)
	write(t, func(tr fdb.Transaction) {
		for number := range 2000 {
			tr.Set(own.Pack(tuple.Tuple{number}), []byte(fmt.Sprint(number)))
		}
		tr.Clear(own.Pack(tuple.Tuple{1}))
		begin, end := own.FDBRangeKeys()
		first, err := tr.GetKey(fdb.FirstGreaterThan(begin)).Get()
		if err != nil || !bytes.Equal(first, own.Pack(tuple.Tuple{0})) {
			t.Errorf("the first key is %v, %v", first, err)
		}
		tenth, err := tr.GetKey(fdb.KeySelector{Key: begin, OrEqual: false, Offset: 10}).Get()
		if err != nil || !bytes.Equal(tenth, own.Pack(tuple.Tuple{10})) {
			t.Errorf("the tenth key is %v, %v", tenth, err)
		}
		last := tr.GetRange(fdb.KeyRange{Begin: begin, End: end}, fdb.RangeOptions{Limit: 3, Reverse: true}).GetSliceOrPanic()
		if len(last) != 3 || string(last[2].Value) != "1997" {
			t.Errorf("the last three are %v", last)
		}
	})
	if found := rows(t, own, fdb.RangeOptions{}); len(found) != 1999 || string(found[1].Value) != "2" {
		t.Fatalf("%d rows", len(found))
	}
	iterated := 0
	_, err := database.ReadTransact(func(tr fdb.ReadTransaction) (any, error) {
		iterated = 0
		iterator := tr.GetRange(own, fdb.RangeOptions{}).Iterator()
		for ; iterator.Advance(); iterated++ {
			iterator.MustGet()
		}
		return nil, nil
	})
	if err != nil || iterated != 1999 {
		t.Fatalf("%d iterated, %v", iterated, err)
	}
}

func TestOfTwoThatReadWhatTheOtherWritesOneIsRefused(t *testing.T) {
	own := space(t)
	var transactions [2]fdb.Transaction
	for index := range transactions {
		transaction, err := database.CreateTransaction()
		if err != nil {
			t.Fatal(err)
		}
		transaction.Get(own.Pack(tuple.Tuple{1 - index})).MustGet()
		transaction.Set(own.Pack(tuple.Tuple{index}), []byte("written"))
		transactions[index] = transaction
	}
	if err := transactions[0].Commit().Get(); err != nil {
		t.Fatal(err)
	}
	var refused fdb.Error
	if err := transactions[1].Commit().Get(); !errors.As(err, &refused) || refused.Code != conflict {
		t.Fatalf("the second came out with %v", err)
	}
	if err := transactions[1].OnError(refused).Get(); err != nil {
		t.Fatal(err)
	}
}

func TestManyGoroutinesCountAndNoneIsLost(t *testing.T) {
	own := space(t)
	read, atomic := own.Pack(tuple.Tuple{"read"}), own.Pack(tuple.Tuple{"atomic"})
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 20 {
				_, err := database.Transact(func(tr fdb.Transaction) (any, error) {
					counted := tr.Get(read).MustGet()
					tr.Set(read, append(counted, '|'))
					tr.Add(atomic, []byte{1, 0, 0, 0, 0, 0, 0, 0})
					return nil, nil
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	if found := rows(t, own, fdb.RangeOptions{}); len(found) != 2 || found[0].Value[0] != 160 || len(found[1].Value) != 160 {
		t.Fatalf("counted %v", found)
	}
}

func TestVersionstampsAndWatches(t *testing.T) {
	own := space(t)
	watched := own.Pack(tuple.Tuple{"watched"})
	watch, err := database.Transact(func(tr fdb.Transaction) (any, error) { return tr.Watch(watched), nil })
	if err != nil {
		t.Fatal(err)
	}
	var stamp fdb.FutureKey
	write(t, func(tr fdb.Transaction) {
		key, err := own.PackWithVersionstamp(tuple.Tuple{"stamped", tuple.IncompleteVersionstamp(7)})
		if err != nil {
			t.Error(err)
		}
		tr.SetVersionstampedKey(key, []byte("value"))
		tr.Set(watched, []byte("changed"))
		stamp = tr.GetVersionstamp()
	})
	watch.(fdb.FutureNil).MustGet()
	found := rows(t, own.Sub("stamped"), fdb.RangeOptions{})
	if len(found) != 1 {
		t.Fatalf("%d rows", len(found))
	}
	unpacked, err := own.Unpack(found[0].Key)
	if err != nil {
		t.Fatal(err)
	}
	version := unpacked[1].(tuple.Versionstamp)
	if !bytes.Equal(version.TransactionVersion[:], stamp.MustGet()) || version.UserVersion != 7 {
		t.Fatalf("stamped %v", version)
	}
}

func TestDirectories(t *testing.T) {
	if _, err := directory.Root().Remove(database, []string{"go"}); err != nil {
		t.Fatal(err)
	}
	made, err := directory.CreateOrOpen(database, []string{"go", "users"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	write(t, func(tr fdb.Transaction) { tr.Set(made.Pack(tuple.Tuple{1}), []byte("one")) })
	moved, err := made.MoveTo(database, []string{"go", "people"})
	if err != nil {
		t.Fatal(err)
	}
	if found := rows(t, moved, fdb.RangeOptions{}); len(found) != 1 || string(found[0].Value) != "one" {
		t.Fatalf("after the move: %v", found)
	}
	names, err := directory.List(database, []string{"go"})
	if err != nil || len(names) != 1 || names[0] != "people" {
		t.Fatalf("listed %v, %v", names, err)
	}
}
