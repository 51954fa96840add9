package gradstep

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"reflect"
	"sort"
	"sync"
	"sync/atomic"
	"testing"
)

const momentum = `"rule": {"name": "momentum"}, "schedule": {"name": "constant", "rate": 0.5}`

// keyedOf makes a keyed table of float32 with keys of an optimizer, and keys in "keyed_table".
func keyedOf(t testing.TB, optimizer, table string) *KeyedTable[float32] {
	t.Helper()
	return must[*KeyedTable[float32]](t)(NewKeyedTable[float32](`{` + optimizer + `, "keyed_table": {` + table + `}}`))
}

// keysIn returns the keys of a table in their order as numbers.
func keysIn(t testing.TB, table *KeyedTable[float32]) []uint64 {
	t.Helper()
	keys := must[[]uint64](t)(table.Keys())
	sort.Slice(keys, func(i, k int) bool { return keys[i] < keys[k] })
	equal(t, must[TableInfo](t)(table.Info()).Rows, len(keys))
	return keys
}

func rowsOfKeys(t testing.TB, table *KeyedTable[float32], keys ...uint64) []float32 {
	t.Helper()
	out := make([]float32, len(keys)*must[TableInfo](t)(table.Info()).Width)
	check(t, table.RowsInto(out, keys...))
	return out
}

// touched makes a table of width 2 in which step k updates the rows of steps[k] by gradients of ones.
func touched(t testing.TB, more string, steps ...[]uint64) *KeyedTable[float32] {
	t.Helper()
	table := keyedOf(t, momentum, `"width": 2`+more)
	for _, keys := range steps {
		check(t, table.Update(keys, values(2*len(keys), func(float64) float64 { return 1 })))
	}
	return table
}

// With the keys 0 to n - 1, a keyed table has the bits of a table.
func TestKeyedTableIsATable(t *testing.T) {
	const rows, width = 10, 3
	for name, optimizer := range map[string]string{"exact": decayed, "average": sgd + `, "average": {"name": "ema", "decay": 0.5}`} {
		const same = `"width": 3, "initial": 0.5, "max_norm": 4, "duplicates": "mean"`
		table, keyed := tableOf[uint64](t, optimizer, `"rows": 10, `+same), keyedOf(t, optimizer, same)
		all := make([]uint64, rows)
		for i := range all {
			all[i] = uint64(i)
		}
		for step := uint64(0); step < 20; step++ {
			ids := all // the first step admits all keys
			if step > 0 {
				ids = []uint64{step % rows, 3, step * 7 % rows, 3}
			}
			gradients := values(len(ids)*width, func(i float64) float64 { return math.Sin(i * float64(step+1)) })
			check(t, table.Update(ids, gradients, RateScale(0.5), Samples(4)))
			check(t, keyed.Update(ids, gradients, RateScale(0.5), Samples(4)))
			bags := Bags[uint64]{IDs: ids, Offsets: []uint64{0, 2}}
			check(t, table.UpdateBags(bags, gradients[:2*width]))
			check(t, keyed.UpdateBags(bags, gradients[:2*width]))
			pooled, same := make([]float32, 2*width), make([]float32, 2*width)
			check(t, table.BagsInto(pooled, bags))
			check(t, keyed.BagsInto(same, bags))
			equal(t, same, pooled)
		}
		compare := func() {
			t.Helper()
			equal(t, rowsOfKeys(t, keyed, all...), rowsOf(t, table))
			equal(t, must[[]float32](t)(keyed.Row(3)), must[[]float32](t)(table.Row(3)))
			equal(t, must[Clock](t)(keyed.Clock()), must[Clock](t)(table.Clock()))
			equal(t, must[TableInfo](t)(keyed.Info()), must[TableInfo](t)(table.Info()))
		}
		compare()
		if name == "average" {
			equal(t, must[any](t)(keyed.Averages(2, 1)), must[any](t)(table.Averages(2, 1)))
			check(t, keyed.ApplyAverage())
			check(t, table.ApplyAverage())
			compare()
			wants(t, keyed.Update(all, make([]float32, rows*width)), BadSequence)
			check(t, keyed.Restore())
			check(t, table.Restore())
		}
		check(t, keyed.Reset(2, 5))
		check(t, table.Reset(2, 5))
		check(t, keyed.Flush())
		check(t, table.Flush())
		compare()
	}
}

// A key gets its row at its third appearance, if there is room.
func TestAdmissionToAKeyedTable(t *testing.T) {
	table := keyedOf(t, sgd, `"width": 1, "initial": 8, "admit_after": 3, "max_rows": 2`)
	check(t, table.Reserve(2))
	const key = 1 << 63
	for i := 0; i < 4; i++ {
		equal(t, must[bool](t)(table.Contains(key)), i > 2)
		equal(t, must[[]float32](t)(table.Row(key)), []float32{8}) // without a row, it reads as its initial values
		check(t, table.Update([]uint64{key}, []float32{float32(i / 3)}))
	}
	equal(t, must[[]float32](t)(table.Row(key)), []float32{7})
	for i := 0; i < 3; i++ {
		check(t, table.Update([]uint64{1, 2}, []float32{1, 1}))
	}
	equal(t, len(keysIn(t, table)), 2)
	equal(t, must[KeyCounts](t)(table.Counts()), KeyCounts{Admitted: 2, TurnedAway: 6, NoRoom: 1})
	skips := keyedOf(t, sgd+`, "on_nonfinite": "skip"`, `"width": 1`)
	check(t, skips.Update([]uint64{1, 2}, []float32{1, float32(math.Inf(1))}))
	equal(t, must[KeyCounts](t)(skips.Counts()), KeyCounts{Admitted: 1, Skipped: 1})
	equal(t, must[TableInfo](t)(skips.Info()).Skipped, int64(1))
}

func TestEvictionByAgeAndNumber(t *testing.T) {
	table := touched(t, "", []uint64{1, 2, 3, 4, 5}, []uint64{2, 3, 4, 5}, []uint64{4, 5}, []uint64{5})
	equal(t, must[int](t)(table.EvictOlderThan(2)), 1)
	equal(t, keysIn(t, table), []uint64{2, 3, 4, 5})
	check(t, table.Hold(2, 3))
	check(t, table.Hold(2))
	equal(t, must[int](t)(table.EvictTo(2, nil)), 2)
	equal(t, keysIn(t, table), []uint64{2, 3})
	check(t, table.Unhold(2, 3))
	equal(t, must[int](t)(table.EvictTo(0, nil)), 1)
	equal(t, keysIn(t, table), []uint64{2})
	check(t, table.Unhold(2))
	equal(t, must[int](t)(table.EvictTo(0, nil)), 1)
	equal(t, must[KeyCounts](t)(table.Counts()), KeyCounts{Admitted: 5, Evicted: 5})
	wants(t, touched(t, `, "last_touches": false`, []uint64{1}).Reserve(-1), BadValue, "Reserve", "-1")
	_, err := touched(t, `, "last_touches": false`, []uint64{1}).EvictOlderThan(1)
	wants(t, err, BadSequence, "last_touches")
}

func TestEvictionByAFunction(t *testing.T) {
	table := touched(t, `, "touch_counts": true`, []uint64{1, 2, 3, 4, 5}, []uint64{4, 5})
	check(t, table.Hold(1))
	seen := map[uint64]KeyedRow[float32]{}
	equal(t, must[int](t)(table.Evict(func(row KeyedRow[float32]) bool {
		seen[row.Key] = KeyedRow[float32]{Age: row.Age, TouchCount: row.TouchCount, Values: append([]float32(nil), row.Values...),
			State: []Slot{{row.State[0].Name, append([]float32(nil), row.State[0].Values.([]float32)...)}}}
		row.Values[0] = 77 // a copy: the table does not change
		return row.Key == 2
	})), 1)
	once := KeyedRow[float32]{Age: 1, TouchCount: 1, Values: []float32{-0.5, -0.5}, State: []Slot{{"m", []float32{1, 1}}}}
	twice := KeyedRow[float32]{Age: 0, TouchCount: 2, Values: []float32{-1.45, -1.45}, State: []Slot{{"m", []float32{1.9, 1.9}}}}
	equal(t, seen, map[uint64]KeyedRow[float32]{2: once, 3: once, 4: twice, 5: twice}) // not 1, which is held
	equal(t, keysIn(t, table), []uint64{1, 3, 4, 5})
	equal(t, rowsOfKeys(t, table, 3, 4), []float32{-0.5, -0.5, -1.45, -1.45})

	equal(t, must[int](t)(table.EvictTo(2, func(row KeyedRow[float32]) float64 { return float64(row.Key) })), 2)
	equal(t, keysIn(t, table), []uint64{1, 5})
	_, err := table.EvictTo(1, func(KeyedRow[float32]) float64 { return math.NaN() })
	wants(t, err, BadValue, "NaN", "key 5")
	_, err = table.EvictTo(-1, nil)
	wants(t, err, BadValue, "EvictTo", "-1")
	equal(t, keysIn(t, table), []uint64{1, 5})
}

// A panic of a function that judges rows ends the judgement and reaches the caller. The table works on, also a concurrent one.
func TestPanicInAnEviction(t *testing.T) {
	table := touched(t, `, "concurrent": true`, []uint64{1, 2, 3})
	cause, calls := errors.New("no verdict"), 0
	panics := func(f func()) {
		t.Helper()
		defer func() { equal(t, recover(), any(cause)) }()
		calls = 0
		f()
	}
	second := func(KeyedRow[float32]) float64 {
		if calls++; calls == 2 {
			panic(cause)
		}
		return 0
	}
	panics(func() { table.EvictTo(0, second) })
	equal(t, calls, 2)
	equal(t, keysIn(t, table), []uint64{1, 2, 3})
	panics(func() { table.Evict(func(row KeyedRow[float32]) bool { return second(row) == 0 }) })
	equal(t, calls, 2)
	equal(t, keysIn(t, table), []uint64{1, 2, 3})
	check(t, table.Update([]uint64{4}, []float32{1, 1}))
	equal(t, must[int](t)(table.Evict(func(row KeyedRow[float32]) bool { return row.Key == 4 })), 1)
}

// A row has the slots of its optimizer, whatever their number, type and size.
func TestStateOfAKeyedRow(t *testing.T) {
	const constant = `, "schedule": {"name": "constant", "rate": 1}`
	for rule, sizes := range map[string][]int{"sgd": nil, "momentum": {3}, "adam": {3, 3}} {
		optimizer := `"rule": {"name": "` + rule + `"}` + constant
		stateHas[float32](t, optimizer, "float32", sizes, []float32(nil))
		stateHas[float64](t, optimizer, "float64", sizes, []float64(nil))
		stateHas[BFloat16](t, optimizer, "bfloat16", sizes, []float32(nil))
		stateHas[BFloat16](t, optimizer+`, "element": "mixed"`, "bfloat16", append(sizes, 3), []float32(nil))
		stateHas[float32](t, optimizer+`, "average": {"name": "ema", "decay": 0.5}`, "float32", append(sizes, 3), []float32(nil))
	}
	stateHas[float32](t, `"rule": {"name": "rowwise_adagrad"}`+constant, "float32", []int{1}, []float32(nil))
	stateHas[float32](t, `"rule": {"name": "rowwise_adam"}`+constant, "float32", []int{3, 1}, []float32(nil))
	stateHas[int32](t, `"rule": {"name": "add_delta"}`+constant, "int32", nil, nil)
}

func stateHas[T Element](t *testing.T, optimizer, name string, sizes []int, of any) {
	t.Helper()
	table := must[*KeyedTable[T]](t)(NewKeyedTable[T](`{` + optimizer + `, "type": "` + name + `", "keyed_table": {"width": 3}}`))
	check(t, table.Update([]uint64{7}, make([]T, 3)))
	var got []int
	equal(t, must[int](t)(table.Evict(func(row KeyedRow[T]) bool {
		for _, slot := range row.State {
			got = append(got, reflect.ValueOf(slot.Values).Len())
			equal(t, reflect.TypeOf(slot.Values), reflect.TypeOf(of))
		}
		return len(row.Values) == 3
	})), 1)
	sort.Ints(got)
	want := append([]int(nil), sizes...)
	sort.Ints(want)
	equal(t, fmt.Sprint(optimizer, got), fmt.Sprint(optimizer, want))
}

func TestReplicaOfAKeyedTable(t *testing.T) {
	table, replica := touched(t, "", []uint64{1, 2, 3}, []uint64{3}), keyedOf(t, momentum, `"width": 2`)
	same := func() {
		t.Helper()
		keys := keysIn(t, table)
		equal(t, keysIn(t, replica), keys)
		equal(t, rowsOfKeys(t, replica, keys...), rowsOfKeys(t, table, keys...))
		equal(t, must[Clock](t)(replica.Clock()), must[Clock](t)(table.Clock()))
	}
	check(t, replica.ApplyChanges(must[[]byte](t)(table.ChangedSince(0, RowValues))))
	same()
	check(t, table.Update([]uint64{9}, []float32{1, 2}))
	equal(t, must[int](t)(table.EvictTo(2, nil)), 2)
	changes := must[[]byte](t)(table.ChangedSince(must[Clock](t)(replica.Clock()).Step, RowValues))
	before := must[[]byte](t)(replica.MarshalBinary())
	wants(t, replica.ApplyChanges(changes[:len(changes)-1]), BadValue)
	wants(t, replica.ApplyChanges(nil), BadValue)
	equal(t, must[[]byte](t)(replica.MarshalBinary()), before)
	check(t, replica.ApplyChanges(changes))
	same()
	check(t, replica.ApplyChanges(must[[]byte](t)(table.ChangedSince(0, RowState)))) // with the momentum, it can train
	for _, each := range []*KeyedTable[float32]{table, replica} {
		check(t, each.Update([]uint64{3, 9}, []float32{1, 2, 3, 4}))
	}
	same()
	_, err := table.ChangedSince(-1, RowValues)
	wants(t, err, BadValue)

	// In 8 bits, the rows of the replica are those that the codes stand for.
	small := keyedOf(t, momentum, `"width": 2`)
	check(t, small.ApplyChanges(must[[]byte](t)(table.ChangedSince(0, RowInt8))))
	keys := keysIn(t, table)
	coded := make([]byte, len(keys)*(2+8))
	check(t, table.Int8RowsInto(coded, keys...))
	for i, key := range keys {
		row := coded[i*10:]
		scale := math.Float32frombits(binary.LittleEndian.Uint32(row[2:]))
		offset := math.Float32frombits(binary.LittleEndian.Uint32(row[6:]))
		equal(t, must[[]float32](t)(small.Row(key)), []float32{float32(float32(row[0])*scale) + offset, float32(float32(row[1])*scale) + offset})
	}
	wants(t, table.Int8RowsInto(coded[1:], keys...), BadSize)

	ahead := must[Clock](t)(table.Clock())
	ahead.Step += 90
	check(t, table.Seek(ahead))
	equal(t, must[Clock](t)(table.Clock()), ahead)
	ahead.Step--
	wants(t, table.Seek(ahead), BadValue)
	_, err = table.ChangedSince(0, 3)
	wants(t, err, BadValue)
}

// A run in two halves, through bytes and through files, has the bits of one run.
func TestResumeAKeyedTable(t *testing.T) {
	const more = `"width": 2, "initial": {"name": "normal", "mean": 0, "deviation": 0.5, "seed": 3}, "admit_after": 2`
	run := func(table *KeyedTable[float32]) {
		for i := 0; i < 20; i++ {
			step := uint64(must[Clock](t)(table.Clock()).Step)
			check(t, table.Update([]uint64{step % 5, step * 7 % 30}, values(4, func(i float64) float64 { return math.Sin(i + float64(step)) })))
		}
	}
	first := keyedOf(t, decayed, more)
	run(first)
	state, path := must[[]byte](t)(first.MarshalBinary()), filepath.Join(t.TempDir(), "table.safetensors")
	check(t, first.SaveFile(path))
	keys := keysIn(t, first)
	run(first)
	want := must[[]byte](t)(first.MarshalBinary())
	for name, load := range map[string]func(*KeyedTable[float32]) error{
		"bytes":  func(table *KeyedTable[float32]) error { return table.UnmarshalBinary(state) },
		"a file": func(table *KeyedTable[float32]) error { return table.LoadFile(path) },
		"a file, with options": func(table *KeyedTable[float32]) error {
			report, err := table.LoadFileWith(path, LoadOptions{})
			equal(t, report, LoadReport{Loaded: []string{nameOfTable}})
			return err
		},
	} {
		second := keyedOf(t, decayed, more)
		check(t, second.Update([]uint64{99, 99}, make([]float32, 4))) // a load replaces the rows
		check(t, load(second))
		equal(t, keysIn(t, second), keys)
		run(second)
		if !reflect.DeepEqual(must[[]byte](t)(second.MarshalBinary()), want) {
			t.Fatalf("through %s: other bits", name)
		}
	}
	wants(t, first.UnmarshalBinary(want[:len(want)-1]), BadValue)
	wants(t, tableOf[uint64](t, decayed, `"rows": 1, "width": 2`).LoadFile(path), BadValue)
	equal(t, must[[]byte](t)(first.MarshalBinary()), want)
}

// Goroutines update one table and lose no gradient, while others evict and send changes. The race detector watches.
func TestConcurrentKeyedTable(t *testing.T) {
	const goroutines, steps = 6, 40
	table := keyedOf(t, sgd, `"width": 2, "concurrent": true`)
	equal(t, must[TableInfo](t)(table.Info()).Concurrent, true)
	check(t, table.Update([]uint64{1 << 40, 9}, make([]float32, 4)))
	check(t, table.Hold(1<<40, 9))
	var wait sync.WaitGroup
	for k := uint64(0); k < goroutines; k++ {
		wait.Add(1)
		go func(k uint64) {
			defer wait.Done()
			out := make([]float32, 2)
			for step := uint64(0); step < steps; step++ {
				keys := []uint64{1 << 40, 9, 100*(k+1) + step}
				errs := []error{table.RowsInto(out, 9)}
				if step%2 == 0 {
					errs = append(errs, table.Update(keys, []float32{-1, -1, -1, -1, -1, -1}))
				} else {
					errs = append(errs, table.UpdateBags(Bags[uint64]{IDs: keys, Offsets: []uint64{0}}, []float32{-1, -1}))
				}
				if out[0] != out[1] {
					errs = append(errs, fmt.Errorf("a row in the middle of a step: %v", out))
				}
				var err error
				switch step % 8 {
				case 1:
					_, err = table.EvictTo(20, nil)
				case 3:
					_, err = table.Evict(func(row KeyedRow[float32]) bool { return row.Key%100 < 5 })
				case 5:
					_, err = table.ChangedSince(0, RowState)
				case 7:
					_, err = table.Keys()
				}
				for _, err := range append(errs, err) {
					if err != nil {
						t.Error(err)
					}
				}
			}
		}(k)
	}
	wait.Wait()
	const all = goroutines * steps
	equal(t, rowsOfKeys(t, table, 1<<40, 9), []float32{all, all, all, all})
	equal(t, must[Clock](t)(table.Clock()).Step, int64(all+1))
	counts := must[KeyCounts](t)(table.Counts())
	equal(t, int(counts.Admitted-counts.Evicted), len(keysIn(t, table)))
}

func TestRefusalsOfAKeyedTable(t *testing.T) {
	for config, parts := range map[string][]string{
		`{` + sgd + `, "keyed_table": {}}`:                                             {"keyed_table.width"},
		`{` + sgd + `, "keyed_table": {"width": 1, "rows": 3}}`:                        {"rows"},
		`{` + sgd + `, "keyed_table": {"width": 1}, "table": {"rows": 1, "width": 1}}`: {"table"},
		`{` + sgd + `, "table": {"rows": 1, "width": 1}}`:                              {`expected "keyed_table"`, "NewTable"},
		`{` + sgd + `, "type": "bfloat16", "keyed_table": {"width": 1}}`:               {"BFloat16", "KeyedTable[float32]"},
		`[]`: {},
	} {
		_, err := NewKeyedTable[float32](config)
		wants(t, err, BadConfig, parts...)
	}
	_, err := NewTable[float32, uint64](`{` + sgd + `, "keyed_table": {"width": 1}}`)
	wants(t, err, BadConfig, `expected "table"`, "NewKeyedTable")

	table := touched(t, "", []uint64{1})
	wants(t, table.Update([]uint64{1}, []float32{1}), BadSize)
	wants(t, table.Update([]uint64{1}, []float32{1, 2}, RateScale(-1)), BadValue, "step_options.rate_scale")
	wants(t, table.Unhold(1), BadValue)
	if _, err := json.Marshal(table); err == nil {
		t.Fatal("a table became JSON")
	}
	equal(t, fmt.Sprint(table), "gradstep.KeyedTable[float32]{rule: momentum, rows: 1, width: 2}")
	same := *table
	check(t, table.Close())
	equal(t, fmt.Sprint(same), "gradstep.KeyedTable[float32]{rule: momentum, width: 2, closed}")
	wants(t, same.Hold(1), BadHandle, "closed")

	var zero KeyedTable[float32]
	equal(t, fmt.Sprint(zero), "gradstep.KeyedTable[float32]{not made}")
	_, contains := zero.Contains(1)
	_, keys := zero.Keys()
	_, counts := zero.Counts()
	_, older := zero.EvictOlderThan(1)
	_, evicted := zero.Evict(nil)
	_, to := zero.EvictTo(1, nil)
	_, changes := zero.ChangedSince(0, RowValues)
	for _, err := range []error{contains, keys, counts, older, evicted, to, changes, zero.Reserve(1), zero.Hold(1), zero.Unhold(1),
		zero.ApplyChanges(nil), zero.Update(nil, nil)} {
		wants(t, err, BadHandle, "zero value", "NewKeyedTable")
	}
	check(t, zero.Close())
}

// The rows a second of a concurrent table: go test -run - -bench Concurrent -cpu 1,2.
func BenchmarkConcurrentUpdate(b *testing.B) {
	const rows, width, inAStep = 65536, 16, 4096
	table := must[*KeyedTable[float32]](b)(NewKeyedTable[float32](`{"rule": {"name": "adagrad"},
		"schedule": {"name": "constant", "rate": 0.1}, "keyed_table": {"width": 16, "concurrent": true}}`))
	keys, gradients := make([]uint64, rows), make([]float32, inAStep*width)
	for i := range keys {
		keys[i] = uint64(i+1) * 0x9e3779b97f4a7c15
	}
	for first := 0; first < rows; first += inAStep {
		check(b, table.Update(keys[first:first+inAStep], gradients))
	}
	var next atomic.Int64
	b.SetBytes(4 * inAStep * width)
	b.ResetTimer()
	b.RunParallel(func(steps *testing.PB) {
		for steps.Next() {
			first := int(next.Add(1)) * inAStep % rows
			check(b, table.Update(keys[first:first+inAStep], gradients))
		}
	})
}
