package gradstep

/*
#include <gradstep/c/gradstep.h>

double gradstepJudge(uintptr_t host, gradstep_row* row); // keyed_row.go
static double row_score(void* host, const gradstep_row* row) { return gradstepJudge((uintptr_t)host, (gradstep_row*)row); }
static int32_t row_test(void* host, const gradstep_row* row) { // NaN after a panic
    double const score = row_score(host, row);
    return score > 0 ? 1 : score == 0 ? 0 : -1;
}

// The host is a cgo.Handle: a number, which Go must not convert to a pointer.
static gradstep_status table_evict(gradstep_table* table, uintptr_t host, uint64_t* evicted, gradstep_error* error) {
    return gradstep_table_evict(table, row_test, (void*)host, evicted, error);
}
static gradstep_status table_evict_to(gradstep_table* table, uint64_t rows, uintptr_t host, uint64_t* evicted,
                                      gradstep_error* error) {
    return gradstep_table_evict_to(table, rows, row_score, (void*)host, evicted, error);
}
*/
import "C"

import (
	"math"
	"runtime/cgo"
	"unsafe"
)

// KeyedTable is an embedding table whose rows have 64-bit keys, such as hashes of features. A key gets a row when the table admits
// it. T is the type of values and gradients:
//
//	const config = `{"rule": {"name": "ftrl"}, "schedule": {"name": "constant", "rate": 0.1}, "type": "float32",
//	    "keyed_table": {"width": 16, "admit_after": 3, "max_rows": 50000000}}`
//	table, err := gradstep.NewKeyedTable[float32](config)
//	...
//	err = table.Update(keys, gradients)
//
// All methods of [Table] that are not about the order of rows work as there, with keys of uint64 as ids: Update, RowsInto, SaveFile
// and so on. RowsInto, Row and Averages return initial values for a key without a row. Info returns the number of rows. A KeyedTable
// does not have SetRows, Grow, Append, Keep and Permute.
//
// With "concurrent": true in "keyed_table", several goroutines can use it as a concurrent Table. docs/how_to/keyed_tables.md
// explains admission, eviction and replicas. A copy of a KeyedTable is the same table.
type KeyedTable[T Element] struct{ *table[T, uint64] }

// NewKeyedTable makes a table without rows. config is the JSON of the optimizer with the keys "type" and "keyed_table"
// (docs/how_to/go.md#keyed-tables). Type and errors are as in NewTable.
func NewKeyedTable[T Element](config string) (*KeyedTable[T], error) {
	t, err := newTable[T, uint64](config, true)
	if err != nil {
		return nil, err
	}
	return &KeyedTable[T]{t}, nil
}

// String describes the table: gradstep.KeyedTable[float32]{rule: ftrl, rows: 10, width: 3}. It also works after Close.
func (t KeyedTable[T]) String() string { return t.text(true) }

// Contains reports whether the key has a row.
func (t *KeyedTable[T]) Contains(key uint64) (bool, error) {
	var contains C.int32_t
	err := t.call(func(s *scratch) C.gradstep_status {
		return C.gradstep_table_contains(t.c, C.uint64_t(key), &contains, &s.said)
	})
	return contains != 0, err
}

// Keys returns the keys that have rows. Their order changes when rows are evicted.
func (t *KeyedTable[T]) Keys() ([]uint64, error) {
	info, err := t.describe()
	if err != nil {
		return nil, err
	}
	// In one call, so that all keys are of the same moment. Other goroutines can add rows before it.
	for room := info.num_rows + 1; ; room *= 2 {
		keys, written := make([]uint64, room), C.uint64_t(0)
		if err := t.call(func(s *scratch) C.gradstep_status {
			return C.gradstep_table_keys(t.c, 0, (*C.uint64_t)(&keys[0]), room, &written, &s.said)
		}); err != nil {
			return nil, err
		}
		if written < room {
			return keys[:written], nil
		}
	}
}

// RangeKeys calls f with the keys that have rows, until f returns false. Unlike Keys, it needs no memory for all of them. The keys are
// of one moment if no row is admitted or evicted meanwhile, by f or by another goroutine.
func (t *KeyedTable[T]) RangeKeys(f func(key uint64) bool) error {
	page := make([]uint64, 4096)
	for first, written := C.uint64_t(0), C.uint64_t(len(page)); written == C.uint64_t(len(page)); first += written {
		if err := t.call(func(s *scratch) C.gradstep_status {
			return C.gradstep_table_keys(t.c, first, (*C.uint64_t)(&page[0]), C.uint64_t(len(page)), &written, &s.said)
		}); err != nil {
			return err
		}
		for _, key := range page[:written] {
			if !f(key) {
				return nil
			}
		}
	}
	return nil
}

// KeyCounts counts events since a [KeyedTable] was made, including the time before a checkpoint.
type KeyCounts struct {
	Admitted   int64 // new rows
	TurnedAway int64 // gradient rows that were dropped because their key was not admitted yet
	NoRoom     int64 // gradient rows that were dropped because the table had "max_rows" rows
	Skipped    int64 // gradient rows that "on_nonfinite": "skip" has left out
	Evicted    int64 // rows
}

// Counts returns how many rows were admitted and evicted, and how many gradient rows were dropped.
func (t *KeyedTable[T]) Counts() (KeyCounts, error) {
	counts := C.gradstep_key_counts{struct_size: C.sizeof_gradstep_key_counts}
	err := t.call(func(s *scratch) C.gradstep_status { return C.gradstep_table_key_counts(t.c, &counts, &s.said) })
	return KeyCounts{int64(counts.admitted), int64(counts.turned_away), int64(counts.no_room), int64(counts.skipped),
		int64(counts.evicted)}, err
}

// Reserve allocates memory for this number of rows in total. Steps then allocate none until the table has that many.
func (t *KeyedTable[T]) Reserve(rows int) error {
	if err := notNegative("Reserve", rows); err != nil {
		return err
	}
	return t.call(func(s *scratch) C.gradstep_status { return C.gradstep_table_reserve(t.c, C.uint64_t(rows), &s.said) })
}

// Hold protects the rows of keys from eviction, until as many calls of Unhold.
func (t *KeyedTable[T]) Hold(keys ...uint64) error {
	return t.call(func(s *scratch) C.gradstep_status {
		return C.gradstep_table_hold(t.c, unsafe.Pointer(&orOne(keys)[0]), C.GRADSTEP_UINT64, C.uint64_t(len(keys)), &s.said)
	})
}

// Unhold ends one Hold of each key.
func (t *KeyedTable[T]) Unhold(keys ...uint64) error {
	return t.call(func(s *scratch) C.gradstep_status {
		return C.gradstep_table_unhold(t.c, unsafe.Pointer(&orOne(keys)[0]), C.GRADSTEP_UINT64, C.uint64_t(len(keys)), &s.said)
	})
}

// KeyedRow is a row of a [KeyedTable], with all steps applied, for the functions that Evict and EvictTo call. The next row overwrites
// the slices: copy what you keep.
type KeyedRow[T Element] struct {
	Key        uint64
	Age        uint32 // steps since the last one that contained the row; 0 with "last_touches": false
	TouchCount uint32 // steps that contained it; 0 without "touch_counts": true
	Values     []T    // as many as the width
	State      []Slot // the part of each slot that belongs to the row
}

// EvictOlderThan evicts the rows whose last step was before this step. It returns their number.
func (t *KeyedTable[T]) EvictOlderThan(step int64) (int, error) {
	return t.evict(func(evicted *C.uint64_t, said *C.gradstep_error) C.gradstep_status {
		return C.gradstep_table_evict_older_than(t.c, C.int64_t(step), evicted, said)
	})
}

// Evict evicts the rows for which chosen returns true, except held rows. It returns their number. The function chosen must not call
// methods of the table or runtime.Goexit, and so not testing.T.FailNow. If it panics, Evict evicts nothing and panics with the same
// value.
func (t *KeyedTable[T]) Evict(chosen func(row KeyedRow[T]) bool) (int, error) {
	score := func(row KeyedRow[T]) float64 {
		if chosen(row) {
			return 1
		}
		return 0
	}
	return t.judge(score, func(host C.uintptr_t, evicted *C.uint64_t, said *C.gradstep_error) C.gradstep_status {
		return C.table_evict(t.c, host, evicted, said)
	})
}

// EvictTo evicts the rows with the lowest score until there are at most this number of rows, and keeps held rows. It returns the
// number of evicted rows. If score is nil, it evicts the least recently updated rows. If a score is NaN, the code of the error is
// BadValue. The function score must not call methods of the table or runtime.Goexit. If it panics, EvictTo evicts nothing and panics
// with the same value.
func (t *KeyedTable[T]) EvictTo(rows int, score func(row KeyedRow[T]) float64) (int, error) {
	if err := notNegative("EvictTo", rows); err != nil {
		return 0, err
	}
	if score == nil {
		return t.evict(func(evicted *C.uint64_t, said *C.gradstep_error) C.gradstep_status {
			return C.gradstep_table_evict_to(t.c, C.uint64_t(rows), nil, nil, evicted, said)
		})
	}
	return t.judge(score, func(host C.uintptr_t, evicted *C.uint64_t, said *C.gradstep_error) C.gradstep_status {
		return C.table_evict_to(t.c, C.uint64_t(rows), host, evicted, said)
	})
}

// evict runs f, which calls C, and returns the number of evicted rows.
func (t *KeyedTable[T]) evict(f func(*C.uint64_t, *C.gradstep_error) C.gradstep_status) (int, error) {
	var evicted C.uint64_t
	err := t.call(func(s *scratch) C.gradstep_status { return f(&evicted, &s.said) })
	return int(evicted), err
}

// judge runs f, which calls C, with a handle for row_test and row_score. Rows are copied to memory of Go's, so that no slice that a
// score function keeps points to memory of the library.
func (t *KeyedTable[T]) judge(score func(KeyedRow[T]) float64,
	f func(C.uintptr_t, *C.uint64_t, *C.gradstep_error) C.gradstep_status) (int, error) {
	state, err := t.stateOfRow()
	if err != nil {
		return 0, err
	}
	values, slots := make([]T, t.width), make([][]byte, len(state))
	for i, slot := range state {
		dtype, count, address := describe(slot.Values)
		slots[i] = unsafe.Slice((*byte)(address), count*int(sizeOfDtype(dtype)))
	}
	panicked, cause := false, any(nil) // a panic must not unwind C++: the table would stay locked
	host := cgo.NewHandle(rowJudge(func(row *C.gradstep_row) (out float64) {
		if panicked {
			return math.NaN()
		}
		defer func() {
			if panicked {
				cause, out = recover(), math.NaN()
			}
		}()
		panicked = true
		copy(values, unsafe.Slice((*T)(row.values), t.width))
		for i, from := range unsafe.Slice(row.state, row.slots) {
			copy(slots[i], unsafe.Slice((*byte)(from), len(slots[i])))
		}
		out = score(KeyedRow[T]{uint64(row.key), uint32(row.age), uint32(row.touch_count), values, state})
		panicked = false
		return out
	}))
	defer host.Delete()
	t.judging.Add(1)
	defer t.judging.Add(-1)
	evicted, err := t.evict(func(evicted *C.uint64_t, said *C.gradstep_error) C.gradstep_status {
		return f(C.uintptr_t(host), evicted, said)
	})
	if panicked {
		panic(cause)
	}
	return evicted, err
}

// stateOfRow returns memory for the slots of one row.
func (t *KeyedTable[T]) stateOfRow() ([]Slot, error) {
	var count C.uint64_t
	if err := t.call(func(s *scratch) C.gradstep_status {
		return C.gradstep_table_slot_count(t.c, &count, &s.said)
	}); err != nil {
		return nil, err
	}
	slots := make([]Slot, count)
	for i := range slots {
		info := C.gradstep_slot{struct_size: C.sizeof_gradstep_slot}
		if err := t.call(func(s *scratch) C.gradstep_status {
			return C.gradstep_table_slot(t.c, C.uint64_t(i), &info, &s.said)
		}); err != nil {
			return nil, err
		}
		slots[i] = Slot{C.GoString(&info.name[0]), valuesOf(info.dtype, int(info.count), nil)}
	}
	return slots, nil
}

// RowContent is what ChangedSince sends of rows.
type RowContent int32

const (
	RowValues RowContent = C.GRADSTEP_CHANGES_VALUES // for a replica that only reads
	RowState  RowContent = C.GRADSTEP_CHANGES_STATE  // also the state, for a replica that trains
	RowInt8   RowContent = C.GRADSTEP_CHANGES_INT8   // the values in 8 bits, as Int8RowsInto
)

// ChangedSince returns the rows that this step and later steps have updated or evicted, as bytes for ApplyChanges of a replica. If the
// table no longer knows all evictions since the step, the code of the error is BadValue: then send all rows, with step 0.
func (t *KeyedTable[T]) ChangedSince(step int64, content RowContent) (out []byte, err error) {
	err = t.changedSince(step, content, func(changes []byte) { out = append([]byte{}, changes...) })
	return out, err
}

// changedSince calls f with the changes in memory of the library.
func (t *KeyedTable[T]) changedSince(step int64, content RowContent, f func(changes []byte)) error {
	var bytes *C.gradstep_bytes
	if err := t.call(func(s *scratch) C.gradstep_status {
		return C.gradstep_table_changed_since(t.c, C.int64_t(step), C.int32_t(content), &bytes, &s.said)
	}); err != nil {
		return err
	}
	defer C.gradstep_bytes_release(bytes)
	var data unsafe.Pointer
	var size C.uint64_t
	if err := withScratch(func(s *scratch) C.gradstep_status {
		return C.gradstep_bytes_view(bytes, &data, &size, &s.said)
	}); err != nil {
		return err
	}
	f(unsafe.Slice((*byte)(data), size))
	return nil
}

// ApplyChanges applies the bytes of ChangedSince of another table with the same type, rule and width. If it returns an error, the
// table is unchanged.
func (t *KeyedTable[T]) ApplyChanges(changes []byte) error {
	return t.call(func(s *scratch) C.gradstep_status {
		return C.gradstep_table_apply_changes(t.c, unsafe.Pointer(&orOne(changes)[0]), C.uint64_t(len(changes)), &s.said)
	})
}
