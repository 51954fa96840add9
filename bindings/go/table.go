package gradstep

/*
#include <gradstep/c/gradstep.h>

// As in parameter.go, handles are integers and elements are bytes, so that cgo does not check for Go pointers.
#define TABLE ((gradstep_table*)table)
static gradstep_status table_update(uintptr_t table, const uint8_t* ids, int32_t id_dtype, uint64_t id_count, const uint8_t* gradients,
                                    uint64_t count, const gradstep_step_options* options, gradstep_error* error) {
    return gradstep_table_update(TABLE, ids, id_dtype, id_count, gradients, count, options, error);
}
// The options of bags are made here: in memory of Go they would contain a Go pointer.
static gradstep_status table_update_bags(uintptr_t table, const uint8_t* ids, int32_t id_dtype, uint64_t id_count, const uint8_t* offsets,
                                         uint64_t bag_count, int32_t mode, const uint8_t* weights, const uint8_t* bag_rows,
                                         uint64_t count, const gradstep_step_options* options, gradstep_error* error) {
    gradstep_bag_options const bags = {sizeof bags, mode, weights};
    return gradstep_table_update_bags(TABLE, ids, id_dtype, id_count, offsets, bag_count, bag_rows, count, &bags, options, error);
}
static gradstep_status table_bags(uintptr_t table, const uint8_t* ids, int32_t id_dtype, uint64_t id_count, const uint8_t* offsets,
                                  uint64_t bag_count, int32_t mode, const uint8_t* weights, uint8_t* out, uint64_t count,
                                  gradstep_error* error) {
    gradstep_bag_options const bags = {sizeof bags, mode, weights};
    return gradstep_table_bags(TABLE, ids, id_dtype, id_count, offsets, bag_count, &bags, out, count, error);
}
#define OF_IDS_AND_VALUES(name)                                                                                                   \
    static gradstep_status table_##name(uintptr_t table, const uint8_t* ids, int32_t id_dtype, uint64_t id_count, uint8_t* values, \
                                        uint64_t count, gradstep_error* error) {                                                  \
        return gradstep_table_##name(TABLE, ids, id_dtype, id_count, values, count, error);                                       \
    }
OF_IDS_AND_VALUES(rows)
OF_IDS_AND_VALUES(int8_rows)
OF_IDS_AND_VALUES(averages)
OF_IDS_AND_VALUES(set_rows)
#define OF_IDS(name)                                                                                                              \
    static gradstep_status table_##name(uintptr_t table, const uint8_t* ids, int32_t id_dtype, uint64_t id_count,                  \
                                        gradstep_error* error) {                                                                  \
        return gradstep_table_##name(TABLE, ids, id_dtype, id_count, error);                                                      \
    }
OF_IDS(reset)
OF_IDS(permute)
static gradstep_status table_append(uintptr_t table, const uint8_t* values, uint64_t count, gradstep_error* error) {
    return gradstep_table_append(TABLE, values, count, error);
}
static gradstep_status table_keep(uintptr_t table, const uint8_t* mask, uint64_t rows, gradstep_error* error) {
    return gradstep_table_keep(TABLE, mask, rows, error);
}
*/
import "C"

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"unsafe"
)

// ID lists the types of the row numbers of a [Table].
type ID interface{ int32 | int64 | uint64 }

// Table is an embedding table: rows of values, of which a step updates those in its batch. It owns the values, the state of the
// optimizer and its clock. T is the type of values and gradients, I the type of row numbers:
//
//	const config = `{"rule": {"name": "adagrad"}, "schedule": {"name": "constant", "rate": 0.1}, "type": "float32",
//	    "table": {"rows": 1000, "width": 16, "duplicates": "mean", "max_norm": 1}}`
//	table, err := gradstep.NewTable[float32, int64](config)
//	...
//	err = table.Update(ids, gradients)
//
// With "concurrent": true in "table", any number of goroutines can call all methods except Close at the same time. Update,
// UpdateBags, RowsInto, BagsInto and Row then run together, and no update is lost. Every other method waits until no call runs. Without it, a
// table is not safe for concurrent use, except that several goroutines can call RowsInto and Row while no other method runs.
//
// Values, state and averages follow their rows in Append, Keep and Permute. If a method returns an error, nothing has changed. A
// copy of a Table is the same table.
type Table[T Element, I ID] struct{ *table[T, I] }

// table is what all copies of a Table or a KeyedTable share.
type table[T Element, I ID] struct {
	c       *C.gradstep_table // nil: closed
	width   int
	state   C.int32_t // the dtype of averages
	rule    string
	judging atomic.Int32 // calls of Evict and EvictTo that have not returned
	owner   *server      // a table of a server; nil: its own
}

// NewTable makes a table. config is the JSON of the optimizer with the keys "type" and "table" (docs/how_to/go.md#tables). The
// type must be T: "float32", which is the default, "float64", "bfloat16", ... If the configuration is invalid, the code of the
// error is BadConfig or NotCompiled.
func NewTable[T Element, I ID](config string) (*Table[T, I], error) {
	t, err := newTable[T, I](config, false)
	if err != nil {
		return nil, err
	}
	return &Table[T, I]{t}, nil
}

// newTable makes what a Table or a KeyedTable shares.
func newTable[T Element, I ID](config string, keyed bool) (*table[T, I], error) {
	text, said := []byte(config+"\x00"), newError()
	t := &table[T, I]{}
	if status := C.gradstep_table_create((*C.char)(unsafe.Pointer(&text[0])), C.size_t(len(config)), &t.c,
		&said); status != C.GRADSTEP_OK {
		return nil, errorOf(status, &said)
	}
	runtime.SetFinalizer(t, func(t *table[T, I]) { t.Close() })
	if err := t.describeSelf(keyed); err != nil {
		t.Close()
		return nil, err
	}
	return t, nil
}

// describeSelf reads the facts of a table from the library. It returns an error if the table has another type.
func (t *table[T, I]) describeSelf(keyed bool) error {
	info, err := t.describe()
	if err != nil {
		return err
	}
	switch isKeyed := info.keyed != 0; {
	case isKeyed && !keyed:
		err = &Error{Code: BadConfig, Message: `config: has "keyed_table"; expected "table", or a call of NewKeyedTable`}
	case !isKeyed && keyed:
		err = &Error{Code: BadConfig, Message: `config: has "table"; expected "keyed_table", or a call of NewTable`}
	case info.dtype != dtypeOf[T]():
		err = &Error{Code: BadConfig, Message: fmt.Sprintf("type: the values are a %T; expected %q, the type of a %s",
			valuesOf(info.dtype, 0, nil), strings.ToLower(nameOfElement[T]()), tableName[T, I](keyed))}
	}
	if err != nil {
		return err
	}
	complete, err := t.Config()
	if err != nil {
		return err
	}
	t.width, t.state, t.rule = int(info.width), info.state_dtype, ruleIn(complete)
	return nil
}

// tableName returns the type of a table without its package: Table[float32, int64], KeyedTable[float32].
func tableName[T Element, I ID](keyed bool) string {
	if keyed {
		return "KeyedTable[" + nameOfElement[T]() + "]"
	}
	return "Table[" + nameOfElement[T]() + ", " + nameOfElement[I]() + "]"
}

// check returns an error if the table is closed, or if no constructor made it.
func (t *table[T, I]) check() error {
	if t == nil {
		return notMade("table", "NewTable or NewKeyedTable")
	}
	if t.c == nil {
		return closed("table")
	}
	if t.owner != nil && t.owner.c == nil {
		return closed("the server of the table")
	}
	return nil
}

// call runs f, which calls C with t.c, and converts its status to an error. It keeps t alive until f returns.
func (t *table[T, I]) call(f func(*scratch) C.gradstep_status) error {
	if err := t.check(); err != nil {
		return err
	}
	err := withScratch(f)
	runtime.KeepAlive(t)
	return err
}

func (t *table[T, I]) handle() C.uintptr_t { return C.uintptr_t(uintptr(unsafe.Pointer(t.c))) }

func (t *table[T, I]) describe() (C.gradstep_table_info, error) {
	info := C.gradstep_table_info{struct_size: C.sizeof_gradstep_table_info}
	err := t.call(func(s *scratch) C.gradstep_status { return C.gradstep_table_describe(t.c, &info, &s.said) })
	return info, err
}

// String describes the table: gradstep.Table[float32, int64]{rule: adagrad, rows: 10, width: 3}. It also works after Close.
func (t Table[T, I]) String() string { return t.text(false) }

func (t *table[T, I]) text(keyed bool) string {
	text := "gradstep." + tableName[T, I](keyed) + "{"
	if t == nil {
		return text + "not made}"
	}
	info, err := t.describe()
	if err != nil {
		return text + fmt.Sprintf("rule: %s, width: %d, closed}", t.rule, t.width)
	}
	return text + fmt.Sprintf("rule: %s, rows: %d, width: %d}", t.rule, info.num_rows, t.width)
}

// MarshalJSON always returns an error. Use MarshalBinary or SaveFile to write a table.
func (t *table[T, I]) MarshalJSON() ([]byte, error) {
	return nil, noJSON("table", "MarshalBinary or SaveFile")
}

// Close releases the memory. Later calls return an error of code BadHandle; a second Close does nothing. No goroutine may use the
// table during Close, also if it is concurrent.
func (t *table[T, I]) Close() error {
	if t == nil {
		return nil
	}
	if t.judging.Load() != 0 {
		return &Error{Code: BadSequence, Message: "Close: an eviction is at work; expected a call after it has returned"}
	}
	if t.owner == nil {
		C.gradstep_table_release(t.c)
	}
	t.c = nil
	runtime.KeepAlive(t)
	return nil
}

// TableInfo contains facts of a [Table] or a [KeyedTable].
type TableInfo struct {
	Rows, Width int
	Concurrent  bool  // several goroutines can call methods at the same time
	Skipped     int64 // gradient rows that "on_nonfinite": "skip" has left out so far
}

// Info returns the size of the table and other facts.
func (t *table[T, I]) Info() (TableInfo, error) {
	info, err := t.describe()
	return TableInfo{int(info.num_rows), int(info.width), info.concurrent != 0, int64(info.skipped)}, err
}

// Update takes one step of the rows in ids. The slice gradients contains len(ids) * width elements, row by row. "duplicates"
// decides about an id that appears several times: the row gets the sum, the mean or the last of its gradients, or the code of the
// error is BadValue ("unique"). Other rows do not change, unless the configuration has "catch_up": "exact" or "replay": then they get
// pending steps, which are applied when you update or read the row, or call Flush.
func (t *table[T, I]) Update(ids []I, gradients []T, options ...Option) error {
	return t.call(func(s *scratch) C.gradstep_status {
		return C.table_update(t.handle(), bytesAt(ids), dtypeOf[I](), C.uint64_t(len(ids)), bytesAt(gradients),
			C.uint64_t(len(gradients)), put(options, &s.options), &s.said)
	})
}

// Bags are embedding bags. Bag b consists of IDs[Offsets[b]:Offsets[b+1]]; the last bag ends at len(IDs). The offsets ascend from 0,
// and a bag can be empty.
type Bags[I ID] struct {
	IDs, Offsets []I
	Weights      any  // a number for each id: a []float64 for a table of float64, else a []float32; nil: 1
	Mean         bool // pools the mean of the rows instead of their sum: divides by the number of ids, without padding
}

// mode returns the mode of bags in C, and the address of their weights.
func (bags *Bags[I]) mode(isFloat64 bool) (mode C.int32_t, weights *C.uint8_t, err error) {
	if bags.Mean {
		mode = C.GRADSTEP_BAG_MEAN
	}
	if bags.Weights == nil {
		return mode, nil, nil
	}
	want := C.int32_t(C.GRADSTEP_FLOAT32)
	if isFloat64 {
		want = C.GRADSTEP_FLOAT64
	}
	dtype, count, weights := describe(bags.Weights)
	if dtype != want {
		return mode, nil, &Error{Code: UnsupportedType, Message: fmt.Sprintf(
			"weights: are a %T; expected a []float64 for a table of float64, else a []float32", bags.Weights)}
	}
	if count != len(bags.IDs) {
		return mode, nil, &Error{Code: BadSize, Message: fmt.Sprintf(
			"weights: has %d elements; expected %d, one for each id", count, len(bags.IDs))}
	}
	return mode, weights, nil
}

// UpdateBags takes one step of the rows in embedding bags. The slice bagGradients contains len(bags.Offsets) * width elements: row b
// is the gradient of every id in bag b, times the weight of the id.
func (t *table[T, I]) UpdateBags(bags Bags[I], bagGradients []T, options ...Option) error {
	mode, weights, err := bags.mode(dtypeOf[T]() == C.GRADSTEP_FLOAT64)
	if err != nil {
		return err
	}
	return t.call(func(s *scratch) C.gradstep_status {
		return C.table_update_bags(t.handle(), bytesAt(bags.IDs), dtypeOf[I](), C.uint64_t(len(bags.IDs)), bytesAt(bags.Offsets),
			C.uint64_t(len(bags.Offsets)), mode, weights, bytesAt(bagGradients), C.uint64_t(len(bagGradients)),
			put(options, &s.options), &s.said)
	})
}

// BagsInto pools the rows of embedding bags: it writes the sum or the mean of the rows of each bag, times their weights, with all
// pending steps applied. The slice out has len(bags.Offsets) * width elements. Padding counts as absent, and a bag without ids gives 0.
func (t *table[T, I]) BagsInto(out []T, bags Bags[I]) error {
	mode, weights, err := bags.mode(dtypeOf[T]() == C.GRADSTEP_FLOAT64)
	if err != nil {
		return err
	}
	return t.call(func(s *scratch) C.gradstep_status {
		return C.table_bags(t.handle(), bytesAt(bags.IDs), dtypeOf[I](), C.uint64_t(len(bags.IDs)), bytesAt(bags.Offsets),
			C.uint64_t(len(bags.Offsets)), mode, weights, bytesAt(out), C.uint64_t(len(out)), &s.said)
	})
}

// RowsInto copies the rows in ids to out, in this order, with all pending steps applied. The slice out has len(ids) * width
// elements.
func (t *table[T, I]) RowsInto(out []T, ids ...I) error {
	return t.call(func(s *scratch) C.gradstep_status {
		return C.table_rows(t.handle(), bytesAt(ids), dtypeOf[I](), C.uint64_t(len(ids)), bytesAt(out), C.uint64_t(len(out)), &s.said)
	})
}

// Int8RowsInto copies the rows in ids to out in 8 bits, for servers that only read. Each row has width + 8 bytes: a code for each
// value, then scale and offset as little-endian float32; a value is code * scale + offset. These are the bytes of FBGEMM.
func (t *table[T, I]) Int8RowsInto(out []byte, ids ...I) error {
	return t.call(func(s *scratch) C.gradstep_status {
		return C.table_int8_rows(t.handle(), bytesAt(ids), dtypeOf[I](), C.uint64_t(len(ids)), (*C.uint8_t)(&orOne(out)[0]), C.uint64_t(len(out)), &s.said)
	})
}

// Row returns a copy of one row, with all pending steps applied. If id is out of range, the code of the error is BadValue.
func (t *table[T, I]) Row(id I) ([]T, error) {
	if err := t.check(); err != nil {
		return nil, err
	}
	out := make([]T, t.width)
	if err := t.RowsInto(out, id); err != nil {
		return nil, err
	}
	return out, nil
}

// Averages returns copies of the averages of the rows in ids, in this order. The key "average" sets them, or a schedule-free rule
// has them. The result is a []float64 for a table of float64, else a []float32.
func (t *table[T, I]) Averages(ids ...I) (any, error) {
	if err := t.check(); err != nil {
		return nil, err
	}
	out := valuesOf(t.state, len(ids)*t.width, nil)
	_, count, address := describe(out)
	if err := t.call(func(s *scratch) C.gradstep_status {
		return C.table_averages(t.handle(), bytesAt(ids), dtypeOf[I](), C.uint64_t(len(ids)), address, C.uint64_t(count), &s.said)
	}); err != nil {
		return nil, err
	}
	return out, nil
}

// ApplyAverage replaces the values by the averages, until Restore. Steps return an error of code BadSequence until then.
func (t *table[T, I]) ApplyAverage() error {
	return t.call(func(s *scratch) C.gradstep_status { return C.gradstep_table_apply_average(t.c, &s.said) })
}

// Restore brings back the trained values after ApplyAverage.
func (t *table[T, I]) Restore() error {
	return t.call(func(s *scratch) C.gradstep_status { return C.gradstep_table_restore(t.c, &s.said) })
}

// SetRows sets the rows in ids, for example to pretrained values: len(ids) * width elements. State that contains weights follows
// the new values, such as a master copy. Moments and the clock do not change.
func (t *Table[T, I]) SetRows(ids []I, values []T) error {
	return t.call(func(s *scratch) C.gradstep_status {
		return C.table_set_rows(t.handle(), bytesAt(ids), dtypeOf[I](), C.uint64_t(len(ids)), bytesAt(values), C.uint64_t(len(values)),
			&s.said)
	})
}

// Reset lets rows begin anew, with the initial values and state of the table.
func (t *table[T, I]) Reset(ids ...I) error {
	return t.call(func(s *scratch) C.gradstep_status {
		return C.table_reset(t.handle(), bytesAt(ids), dtypeOf[I](), C.uint64_t(len(ids)), &s.said)
	})
}

// Grow adds rows with initial values, up to this number of rows in total. If the table has more, the code of the error is BadValue.
func (t *Table[T, I]) Grow(rows int) error {
	if err := notNegative("Grow", rows); err != nil {
		return err
	}
	return t.call(func(s *scratch) C.gradstep_status { return C.gradstep_table_grow(t.c, C.uint64_t(rows), &s.said) })
}

func notNegative(method string, rows int) error {
	if rows < 0 {
		return &Error{Code: BadValue, Message: fmt.Sprintf("%s: %d rows; expected a number >= 0", method, rows)}
	}
	return nil
}

// Append adds rows with these values behind the others. The number of values is a multiple of the width.
func (t *Table[T, I]) Append(values []T) error {
	return t.call(func(s *scratch) C.gradstep_status {
		return C.table_append(t.handle(), bytesAt(values), C.uint64_t(len(values)), &s.said)
	})
}

// Keep keeps the rows whose element of the mask is true, in their order, and removes the others.
func (t *Table[T, I]) Keep(mask []bool) error {
	return t.call(func(s *scratch) C.gradstep_status {
		return C.table_keep(t.handle(), (*C.uint8_t)(unsafe.Pointer(&orOne(mask)[0])), C.uint64_t(len(mask)), &s.said)
	})
}

// Permute puts the rows in another order: row i becomes what was row order[i].
func (t *Table[T, I]) Permute(order []I) error {
	return t.call(func(s *scratch) C.gradstep_status {
		return C.table_permute(t.handle(), bytesAt(order), dtypeOf[I](), C.uint64_t(len(order)), &s.said)
	})
}

// Flush applies the pending steps of all rows. With "catch_up": "touch_only", the default, there are none.
func (t *table[T, I]) Flush() error {
	return t.call(func(s *scratch) C.gradstep_status { return C.gradstep_table_flush(t.c, &s.said) })
}

// Clock returns the progress of the run: steps, samples and epoch.
func (t *table[T, I]) Clock() (Clock, error) {
	now := C.gradstep_clock{struct_size: C.sizeof_gradstep_clock}
	err := t.call(func(s *scratch) C.gradstep_status { return C.gradstep_table_clock(t.c, &now, &s.said) })
	return clockOf(&now), err
}

// Seek sets the clock to the progress of a run; of rows with keys, to no earlier step than the present one. With "catch_up": "exact" or
// "replay", the code of the error is BadSequence.
func (t *table[T, I]) Seek(to Clock) error {
	c := to.toC()
	return t.call(func(s *scratch) C.gradstep_status { return C.gradstep_table_seek(t.c, &c, &s.said) })
}

// Config returns the complete configuration, with every default filled in, and with the present number of rows.
func (t *table[T, I]) Config() (string, error) {
	if err := t.check(); err != nil {
		return "", err
	}
	said := newError()
	text, err := readText(func(buffer *C.char, bytes C.uint64_t, written *C.uint64_t) (C.gradstep_status, *C.gradstep_error) {
		return C.gradstep_table_config(t.c, buffer, bytes, written, &said), &said
	})
	runtime.KeepAlive(t)
	return text, err
}

// MarshalBinary serializes values, state, pending steps and clock, with a checksum, so that a run can resume bit for bit. It does
// not include the configuration.
func (t *table[T, I]) MarshalBinary() ([]byte, error) {
	for room := C.uint64_t(0); ; room = 2*room + 4096 {
		var bytes C.uint64_t
		if err := t.call(func(s *scratch) C.gradstep_status { return C.gradstep_table_state_bytes(t.c, &bytes, &s.said) }); err != nil {
			return nil, err
		}
		out := make([]byte, bytes+room)
		err := t.call(func(s *scratch) C.gradstep_status {
			return C.gradstep_table_save(t.c, unsafe.Pointer(&out[0]), C.uint64_t(len(out)), &bytes, &s.said)
		})
		if err == nil {
			return out[:bytes], nil
		}
		if !errors.Is(err, &Error{Code: BadSize}) {
			return nil, err
		} // other goroutines took steps between the two calls, and the state has grown
	}
}

// UnmarshalBinary restores values, state, pending steps and clock from the bytes of MarshalBinary. The table must have the same
// type, rule, "catch_up" and width. A table with fewer rows grows. A keyed table gets the rows of the bytes. If the bytes do not match
// or are damaged, it returns an error and nothing changes.
func (t *table[T, I]) UnmarshalBinary(data []byte) error {
	return t.call(func(s *scratch) C.gradstep_status {
		return C.gradstep_table_load(t.c, unsafe.Pointer(&orOne(data)[0]), C.uint64_t(len(data)), &s.said)
	})
}
