package gradstep

/*
#include <stdlib.h>
#include <string.h>
#include <gradstep/c/gradstep.h>

static void* gradient_memory(size_t bytes) {
    size_t const rounded = (bytes + 63) / 64 * 64; // aligned_alloc needs a multiple of 64, and can return NULL for 0 bytes
    void* const out = aligned_alloc(64, rounded == 0 ? 64 : rounded);
    if (out != NULL) memset(out, 0, bytes);
    return out;
}

// The calls of every step. They pass handles as integers and elements as bytes. Otherwise cgo checks for Go pointers behind each
// pointer: the check allocates, and it rejects slices of arrays with Go pointers.
static gradstep_status update(uintptr_t parameter, const uint8_t* gradient, uint64_t count,
                              const gradstep_step_options* options, gradstep_error* error) {
    return gradstep_parameter_update((gradstep_parameter*)parameter, gradient, count, options, error);
}
static gradstep_status ascend(uintptr_t parameter, const uint8_t* gradient, uint64_t count, const gradstep_sam_options* how,
                              double* norm, gradstep_error* error) {
    gradstep_parameter* const one = (gradstep_parameter*)parameter;
    const void* const at = gradient;
    return gradstep_parameters_ascend(&one, &at, &count, 1, how, norm, error);
}
static gradstep_status descend(uintptr_t parameter, const uint8_t* gradient, uint64_t count,
                               const gradstep_step_options* options, gradstep_error* error) {
    gradstep_parameter* const one = (gradstep_parameter*)parameter;
    const void* const at = gradient;
    return gradstep_parameters_descend(&one, &at, &count, 1, options, error);
}
static gradstep_status update_rows(uintptr_t parameter, const int64_t* ids, uint64_t id_count, const uint8_t* gradients,
                                   uint64_t count, const gradstep_step_options* options, gradstep_error* error) {
    return gradstep_parameter_update_rows((gradstep_parameter*)parameter, ids, GRADSTEP_INT64, id_count, gradients, count, options, error);
}
static gradstep_status rows(uintptr_t parameter, const int64_t* ids, uint64_t id_count, uint8_t* out, uint64_t count,
                            gradstep_error* error) {
    return gradstep_parameter_rows((gradstep_parameter*)parameter, ids, GRADSTEP_INT64, id_count, out, count, error);
}
static gradstep_status set_values(uintptr_t parameter, const uint8_t* values, uint64_t count, gradstep_error* error) {
    return gradstep_parameter_set_values((gradstep_parameter*)parameter, values, count, error);
}
static gradstep_status append_rows(uintptr_t parameter, const uint8_t* values, uint64_t count, gradstep_error* error) {
    return gradstep_parameter_append((gradstep_parameter*)parameter, values, count, error);
}
static gradstep_status compress(uintptr_t parameter, const uint8_t* gradient, uint64_t count, const gradstep_step_options* options,
                                uint8_t* buffer, uint64_t bytes, uint64_t* written, gradstep_error* error) {
    return gradstep_parameter_compress((gradstep_parameter*)parameter, gradient, count, options, buffer, bytes, written, error);
}
// Applies messages that are concatenated in memory.
static gradstep_status apply_messages(uintptr_t parameter, const uint8_t* all, const uint64_t* bytes, uint64_t n, gradstep_error* error) {
    const void** const at = (const void**)malloc((n + 1) * sizeof *at);
    if (at == NULL) {
        strcpy(error->message, "there is no memory for messages");
        return GRADSTEP_OUT_OF_MEMORY;
    }
    for (uint64_t i = 0; i < n; all += bytes[i++]) at[i] = all;
    gradstep_status const status = gradstep_parameter_apply_messages((gradstep_parameter*)parameter, at, bytes, n, error);
    free(at);
    return status;
}
*/
import "C"

import (
	"fmt"
	"runtime"
	"unsafe"
)

// Parameter owns the values of one parameter, the state of its optimizer and its clock. A copy of a Parameter is the same
// parameter: changing or closing one changes or closes the other one. The memory is valid while a copy exists.
type Parameter[T Element] struct{ *parameter }

// AnyParameter is a [Parameter] of any element type.
type AnyParameter interface{ base() *parameter }

// parameter is the part of a Parameter that does not depend on the element type. It holds the error and the options of a call,
// because Go would allocate them in every call if they were local variables that C gets.
type parameter struct {
	c           *C.gradstep_parameter // nil: closed
	rows, width int
	hasRows     bool // else rows is 1, and width the number of elements
	bytes       int  // the size of an element
	gradient    unsafe.Pointer
	copy        unsafe.Pointer // of BFloat16Copy
	config      string         // the string that the constructor got
	reads       int            // calls of Read that have not returned
	owner       *server        // a parameter of a server; nil: its own
	said        C.gradstep_error
	options     C.gradstep_step_options
}

func (p *Parameter[T]) base() *parameter {
	if p == nil {
		return nil
	}
	return p.parameter
}

// check returns an error if the parameter is closed, or if no constructor made it.
func (p *parameter) check() error {
	if p == nil {
		return notMade("parameter", "NewParameter or NewRows")
	}
	if p.c == nil {
		return closed("parameter")
	}
	if p.owner != nil && p.owner.c == nil {
		return closed("the server of the parameter")
	}
	return nil
}

// String describes the parameter: gradstep.Parameter[float32]{rule: adam, rows: 10, width: 3}. It also works after Close.
func (p Parameter[T]) String() string {
	text := "gradstep.Parameter[" + nameOfElement[T]() + "]{"
	if p.parameter == nil {
		return text + "not made}"
	}
	text += fmt.Sprintf("rule: %s, rows: %d, width: %d", nameOfRule(p.config), p.rows, p.width)
	if p.check() != nil {
		text += ", closed"
	}
	return text + "}"
}

// MarshalJSON always returns an error. Use MarshalBinary or SaveFile to write a parameter.
func (p *parameter) MarshalJSON() ([]byte, error) {
	return nil, noJSON("parameter", "MarshalBinary or SaveFile")
}

// NewParameter makes a parameter with a copy of the initial values: len(initial) elements. config is the JSON of the optimizer
// (docs/how_to/configuration.md). If it is invalid, the code of the error is BadConfig or NotCompiled.
func NewParameter[T Element](config string, initial []T) (*Parameter[T], error) {
	return newParameter(config, 1, len(initial), initial)
}

// NewRows makes a parameter whose rows you can update by index, such as an embedding table. The slice initial contains rows *
// width values, row by row, which are copied; nil: zeros.
func NewRows[T Element](config string, rows, width int, initial []T) (*Parameter[T], error) {
	if rows < 0 || width < 0 {
		return nil, badSize("rows: %d of width %d; expected numbers >= 0", rows, width)
	}
	if initial != nil && !isProduct(len(initial), rows, width) {
		return nil, badSize("initial: has %d values; expected those of %d rows of width %d", len(initial), rows, width)
	}
	if rows != 1 || width == 0 {
		return newParameter(config, rows, width, initial)
	}
	// The library makes a vector of a single row. A table without rows gets it as its first one.
	vector, err := newParameter(config, rows, width, initial)
	if err != nil {
		return nil, err
	}
	defer vector.Close()
	p, err := newParameter[T](config, 0, width, nil)
	if err != nil {
		return nil, err
	}
	if failed := vector.Read(func(values []T) { err = p.Append(values) }); failed != nil {
		err = failed
	}
	if err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

func newParameter[T Element](config string, rows, width int, initial []T) (*Parameter[T], error) {
	var element T
	p := &parameter{rows: rows, width: width, hasRows: rows != 1, bytes: int(unsafe.Sizeof(element)), config: config, said: newError()}
	text := []byte(config + "\x00")
	var status C.gradstep_status
	if len(initial) == 0 {
		status = C.gradstep_parameter_create((*C.char)(unsafe.Pointer(&text[0])), C.size_t(len(config)), dtypeOf[T](), nil,
			C.uint64_t(rows), C.uint64_t(width), &p.c, &p.said)
	} else {
		status = C.gradstep_parameter_create((*C.char)(unsafe.Pointer(&text[0])), C.size_t(len(config)), dtypeOf[T](),
			unsafe.Pointer(&initial[0]), C.uint64_t(rows), C.uint64_t(width), &p.c, &p.said)
	}
	if status != C.GRADSTEP_OK {
		return nil, errorOf(status, &p.said)
	}
	runtime.SetFinalizer(p, func(p *parameter) { p.Close() }) // the finalizer of the part that all copies share
	return &Parameter[T]{p}, nil
}

// isProduct reports whether n == a * b. The product can be too large for an int.
func isProduct(n, a, b int) bool {
	if a == 0 || b == 0 {
		return n == 0
	}
	return n%a == 0 && n/a == b
}

// orOne returns s, or a slice of one element if s is empty, so that it has an address.
func orOne[T any](s []T) []T {
	if len(s) == 0 {
		return make([]T, 1)
	}
	return s
}

func (p *parameter) handle() C.uintptr_t { return C.uintptr_t(uintptr(unsafe.Pointer(p.c))) }

func bytesAt[T Element](s []T) *C.uint8_t { return (*C.uint8_t)(unsafe.Pointer(&orOne(s)[0])) }

// Close releases the memory. Later calls return an error of code BadHandle; a second Close does nothing. In the function that
// Read calls, Close returns an error of code BadSequence.
func (p *parameter) Close() error {
	if p == nil {
		return nil
	}
	if p.reads != 0 {
		return &Error{Code: BadSequence, Message: "Close: the function of Read is at work; expected a call after Read has returned"}
	}
	if p.owner == nil {
		C.gradstep_parameter_release(p.c)
	}
	C.free(p.gradient)
	C.free(p.copy)
	p.c, p.gradient, p.copy = nil, nil, nil
	runtime.KeepAlive(p)
	return nil
}

// call runs f, which calls C with p.c, and converts its status to an error. It keeps p alive until f returns.
func (p *parameter) call(f func() C.gradstep_status) error {
	if err := p.check(); err != nil {
		return err
	}
	err := errorOf(f(), &p.said)
	runtime.KeepAlive(p)
	return err
}

// Rows returns the number of rows; 1 after NewParameter.
func (p *parameter) Rows() int {
	if p == nil {
		return 0
	}
	return p.rows
}

// Width returns the number of elements of a row.
func (p *parameter) Width() int {
	if p == nil {
		return 0
	}
	return p.width
}

// Len returns the number of elements: Rows() * Width().
func (p *parameter) Len() int { return p.Rows() * p.Width() }

// SetShape sets the shape of the values for files and saved states. The product of the extents must be Len(). Files contain the
// shape, and loading a file with another shape is an error. By default the shape is Rows() x Width() for rows of several
// elements. Otherwise it is unknown, and only the number of elements must match.
func (p *parameter) SetShape(extents ...int) error {
	shape := make([]C.uint64_t, len(extents)+1)
	for i, extent := range extents {
		if extent < 0 {
			return badSize("SetShape: extent %d is %d; expected >= 0", i, extent)
		}
		shape[i] = C.uint64_t(extent)
	}
	return p.call(func() C.gradstep_status {
		return C.gradstep_parameter_set_shape(p.c, &shape[0], C.uint64_t(len(extents)), &p.said)
	})
}

// Update takes one step of all elements. The gradient contains Len() elements. If it contains NaN or infinity and on_nonfinite is
// "raise", the code of the error is NotFinite.
func (p *Parameter[T]) Update(gradient []T, options ...Option) error {
	shared := p.parameter
	if err := shared.check(); err != nil {
		return err
	}
	count := C.uint64_t(len(gradient))
	step := put(options, &shared.options)
	status := C.update(shared.handle(), bytesAt(gradient), count, step, &shared.said)
	err := errorOf(status, &shared.said)
	runtime.KeepAlive(shared)
	return err
}

// Ascend moves the values along the gradient: the first half of a step of sharpness-aware minimization. It returns the norm of the
// gradient. Compute the second gradient at the values that it left, for Descend; Restore gives up the step. Until then, other
// steps, loads and saves return an error of code BadSequence. If the gradient contains NaN or infinity and on_nonfinite is
// "skip", the norm is NaN, nothing has moved, and the step is over. [Batch.Ascend] takes the norm of several gradients together.
// The guide is docs/how_to/sharpness_aware.md.
func (p *Parameter[T]) Ascend(gradient []T, how SAM) (norm float64, err error) {
	var found C.double
	count, options := C.uint64_t(len(gradient)), how.toC()
	err = p.call(func() C.gradstep_status {
		return C.ascend(p.handle(), bytesAt(gradient), count, &options, &found, &p.said)
	})
	return float64(found), err
}

// Descend brings back the values before Ascend, bit for bit, and takes the step: the second half. If the gradient is rejected,
// nothing changes, and you can call it again.
func (p *Parameter[T]) Descend(gradient []T, options ...Option) error {
	count := C.uint64_t(len(gradient))
	return p.call(func() C.gradstep_status {
		return C.descend(p.handle(), bytesAt(gradient), count, put(options, &p.options), &p.said)
	})
}

// BFloat16Copy returns memory to which every step also writes the values, rounded to bfloat16, in the same pass: for example for the
// forward pass. The first call begins with it, and every call writes the present values. Call it again after SetValues, a load,
// ApplyAverage or Restore, which do not write the copy. It is memory of the library, valid until EndBFloat16Copy or Close, or
// until the parameter is garbage, so keep the parameter while you use the slice. While there is a copy, the rows cannot move
// (Append), and there is no Ascend. For other elements than float32, "dgc_momentum", and a parameter of a server, the code of the
// error is BadValue.
func (p *parameter) BFloat16Copy() ([]BFloat16, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	memory := p.copy
	if memory == nil {
		if memory = C.gradient_memory(C.size_t(2 * p.Len())); memory == nil {
			return nil, &Error{Code: OutOfMemory, Message: "BFloat16Copy: there is no memory for the copy"}
		}
	}
	if err := p.call(func() C.gradstep_status {
		return C.gradstep_parameter_set_bfloat16_copy(p.c, (*C.uint16_t)(memory), C.uint64_t(p.Len()), &p.said)
	}); err != nil {
		if p.copy == nil {
			C.free(memory)
		}
		return nil, err
	}
	p.copy = memory
	return unsafe.Slice((*BFloat16)(memory), p.Len()), nil
}

// EndBFloat16Copy ends the copy, and frees its memory.
func (p *parameter) EndBFloat16Copy() error {
	if err := p.call(func() C.gradstep_status {
		return C.gradstep_parameter_set_bfloat16_copy(p.c, nil, 0, &p.said)
	}); err != nil {
		return err
	}
	C.free(p.copy)
	p.copy = nil
	return nil
}

// UpdateRows takes one step of the rows in ids. The slice gradients contains len(ids) * Width() elements, row by row. The
// gradients of a duplicate id are added. Other rows do not change, unless the configuration has "catch_up": "exact" or
// "replay": then they get pending steps, which are applied when you update or read the row, or call Flush. If an id is out of
// range, the code of the error is BadValue.
func (p *Parameter[T]) UpdateRows(ids []int64, gradients []T, options ...Option) error {
	idCount, count := C.uint64_t(len(ids)), C.uint64_t(len(gradients))
	ids = orOne(ids)
	return p.call(func() C.gradstep_status {
		return C.update_rows(p.handle(), (*C.int64_t)(&ids[0]), idCount, bytesAt(gradients), count, put(options, &p.options), &p.said)
	})
}

// Compress adds a gradient to the state and returns the message for all trainers: the first phase of a step of "dgc_momentum".
// Apply is the second phase, which updates the values. With several trainers, call both in every step: Update returns an error
// of code BadSequence, or in a dense step uses this trainer's gradient only, so that the trainers diverge. The guide is
// docs/how_to/compressed_gradients.md.
func (p *Parameter[T]) Compress(gradient []T, options ...Option) ([]byte, error) {
	var most, written C.uint64_t
	if err := p.call(func() C.gradstep_status { return C.gradstep_parameter_message_bound(p.c, &most, &p.said) }); err != nil {
		return nil, err
	}
	count, out := C.uint64_t(len(gradient)), make([]byte, most)
	if err := p.call(func() C.gradstep_status {
		return C.compress(p.handle(), bytesAt(gradient), count, put(options, &p.options), (*C.uint8_t)(unsafe.Pointer(&out[0])), most,
			&written, &p.said)
	}); err != nil {
		return nil, err
	}
	return out[:written], nil
}

// Apply updates the values with the mean of all trainers' messages: the second phase of a step of "dgc_momentum". The messages
// are the results of Compress of all trainers, in the order of their ranks, including this trainer's own. If they are not the
// messages of this step, Apply returns an error, nothing changes, and you can call it again.
func (p *parameter) Apply(messages [][]byte) error {
	var all []byte // one block of memory without Go pointers, for C
	bytes := make([]C.uint64_t, len(messages)+1)
	for i, each := range messages {
		bytes[i] = C.uint64_t(len(each))
		all = append(all, each...)
	}
	all = orOne(all)
	return p.call(func() C.gradstep_status {
		return C.apply_messages(p.handle(), (*C.uint8_t)(unsafe.Pointer(&all[0])), &bytes[0], C.uint64_t(len(messages)), &p.said)
	})
}

// Gradient returns memory for the gradient that a [Batch] reads: Len() elements, initially 0. It is C memory, aligned to 64
// bytes. It is valid until Close, a change of rows (Append), or until the parameter is garbage, so keep the parameter while you
// use the slice. It is nil if the parameter is closed, or if the system has no memory.
func (p *Parameter[T]) Gradient() []T {
	if !p.allocateGradient() {
		return nil
	}
	return unsafe.Slice((*T)(p.gradient), p.Len())
}

func (p *parameter) allocateGradient() bool {
	if p == nil {
		return false
	}
	if p.gradient == nil && p.check() == nil {
		p.gradient = C.gradient_memory(C.size_t(p.Len() * p.bytes))
	}
	return p.gradient != nil
}

// memory returns the values in the library's memory, and their number. Pending steps are applied first.
func (p *parameter) memory() (data unsafe.Pointer, count C.uint64_t, err error) {
	err = p.call(func() C.gradstep_status {
		return C.gradstep_parameter_values(p.c, &data, &count, &p.said)
	})
	return data, count, err
}

// Read calls f with the values in the library's memory, row by row, without a copy. Pending steps are applied first. The slice
// is valid until f returns. The function f must not write to it, and must not call methods of the parameter.
func (p *Parameter[T]) Read(f func(values []T)) error {
	data, count, err := p.memory()
	if err != nil {
		return err
	}
	shared := p.parameter // f can assign another parameter to p
	shared.reads++
	defer func() { shared.reads-- }() // this also keeps it alive
	f(unsafe.Slice((*T)(data), int(count)))
	return nil
}

// Values returns a copy of all values, row by row, with all pending steps applied.
func (p *Parameter[T]) Values() ([]T, error) {
	var out []T
	err := p.Read(func(values []T) { out = append(out, values...) })
	return out, err
}

// SetValues sets all values, row by row: Len() elements. Pending steps are applied first. State that contains weights follows the new
// values, such as a master copy. Moments and the clock do not change.
func (p *Parameter[T]) SetValues(values []T) error {
	count := C.uint64_t(len(values))
	return p.call(func() C.gradstep_status {
		return C.set_values(p.handle(), bytesAt(values), count, &p.said)
	})
}

// Append adds rows with these values behind the others, while training goes on. NewRows defines the rows; after NewParameter,
// SetShape does, or else each element is a row. Values, state and averages follow their rows in Append, Keep,
// Permute and Reset (docs/how_to/growing_parameters.md), after pending steps. The state of a new row begins anew. The memory of
// Gradient is released: call Gradient again. If they return an error, nothing has changed. In the function that Read calls, the
// code of the error is BadSequence.
func (p *Parameter[T]) Append(values []T) error {
	count := C.uint64_t(len(values))
	return p.changeRows("Append", -1, func() C.gradstep_status {
		return C.append_rows(p.handle(), bytesAt(values), count, &p.said)
	})
}

// Keep keeps the rows whose element of the mask is true, in their order, and removes the others. See Append.
func (p *parameter) Keep(mask []bool) error {
	bytes, kept := make([]C.uint8_t, len(mask)+1), 0
	for i, keeps := range mask {
		if keeps {
			bytes[i] = 1
			kept++
		}
	}
	return p.changeRows("Keep", kept, func() C.gradstep_status {
		return C.gradstep_parameter_keep(p.c, &bytes[0], C.uint64_t(len(mask)), &p.said)
	})
}

// Permute puts the rows in another order: row i becomes what was row order[i]. See Append.
func (p *parameter) Permute(order []int64) error {
	count, order := C.uint64_t(len(order)), orOne(order)
	return p.changeRows("Permute", -1, func() C.gradstep_status {
		return C.gradstep_parameter_permute(p.c, unsafe.Pointer(&order[0]), C.GRADSTEP_INT64, count, &p.said)
	})
}

// Reset lets the state of rows begin anew. The values stay. See Append.
func (p *parameter) Reset(ids ...int64) error {
	count, ids := C.uint64_t(len(ids)), orOne(ids)
	return p.changeRows("Reset", -1, func() C.gradstep_status {
		return C.gradstep_parameter_reset(p.c, unsafe.Pointer(&ids[0]), C.GRADSTEP_INT64, count, &p.said)
	})
}

// changeRows runs f, which changes the rows, and follows their number. A parameter of width 0 has `kept` rows then, or as many as
// before if kept < 0.
func (p *parameter) changeRows(name string, kept int, f func() C.gradstep_status) error {
	if p != nil && p.reads != 0 {
		return &Error{Code: BadSequence, Message: name + ": the function of Read is at work; expected a call after Read has returned"}
	}
	if err := p.call(f); err != nil {
		return err
	}
	_, count, err := p.memory()
	if err != nil {
		return err
	}
	switch {
	case !p.hasRows:
		p.width = int(count)
	case p.width != 0:
		p.rows = int(count) / p.width
	case kept >= 0:
		p.rows = kept
	}
	C.free(p.gradient)
	C.free(p.copy) // of 0 elements: with others, the rows cannot change
	p.gradient, p.copy = nil, nil
	return nil
}

// RowsInto copies the rows in ids to out, in this order, with all pending steps applied. The slice out has len(ids) * Width()
// elements.
func (p *Parameter[T]) RowsInto(out []T, ids ...int64) error {
	idCount, count := C.uint64_t(len(ids)), C.uint64_t(len(out))
	ids = orOne(ids)
	return p.call(func() C.gradstep_status {
		return C.rows(p.handle(), (*C.int64_t)(&ids[0]), idCount, bytesAt(out), count, &p.said)
	})
}

// Row returns a copy of one row, with all pending steps applied. If id is out of range, the code of the error is BadValue.
func (p *Parameter[T]) Row(id int64) ([]T, error) {
	out := make([]T, p.Width())
	if err := p.RowsInto(out, id); err != nil {
		return nil, err
	}
	return out, nil
}

// Flush applies the pending steps of all rows. With "catch_up": "touch_only", the default, there are none.
func (p *parameter) Flush() error {
	return p.call(func() C.gradstep_status { return C.gradstep_parameter_flush(p.c, &p.said) })
}

// Slots returns copies of the optimizer's state, in the order of the rule, then the average and the master copy. Pending steps
// are not applied; call Flush first.
func (p *parameter) Slots() ([]Slot, error) {
	var count C.uint64_t
	if err := p.call(func() C.gradstep_status { return C.gradstep_parameter_slot_count(p.c, &count, &p.said) }); err != nil {
		return nil, err
	}
	out := make([]Slot, count)
	for i := range out {
		info := C.gradstep_slot{struct_size: C.sizeof_gradstep_slot}
		var data unsafe.Pointer
		if err := p.call(func() C.gradstep_status {
			return C.gradstep_parameter_slot(p.c, C.uint64_t(i), &info, &data, &p.said)
		}); err != nil {
			return nil, err
		}
		out[i] = Slot{C.GoString(&info.name[0]), valuesOf(info.dtype, int(info.count), data)}
	}
	runtime.KeepAlive(p)
	return out, nil
}

// Clock returns the progress of the run: steps, samples and epoch.
func (p *parameter) Clock() (Clock, error) {
	now := C.gradstep_clock{struct_size: C.sizeof_gradstep_clock}
	err := p.call(func() C.gradstep_status { return C.gradstep_parameter_clock(p.c, &now, &p.said) })
	return clockOf(&now), err
}

// Seek sets the clock to the progress of a run. Values and state do not change. With "catch_up": "exact" or "replay", the code
// of the error is BadSequence; use UnmarshalBinary or LoadFile instead.
func (p *parameter) Seek(to Clock) error {
	c := to.toC()
	return p.call(func() C.gradstep_status { return C.gradstep_parameter_seek(p.c, &c, &p.said) })
}

// SetNumbers changes hyperparameters from the next step on, and keeps values, state and clock. The keys are paths in the
// configuration, as in error messages:
//
//	err := p.SetNumbers(map[string]float64{"rule.beta1": 0.85, "regularizer.rate": 0.01})
//
// All numbers are checked before any is changed (BadConfig); those that must be the same in all steps, such as initial values, do
// not change. If inactive rows have a history of steps ("catch_up": "exact" or
// "replay"), the code of the error is BadSequence.
func (p *parameter) SetNumbers(numbers map[string]float64) error {
	return p.call(func() C.gradstep_status {
		return withNumbers(numbers, func(paths **C.char, values *C.double, n C.uint64_t) C.gradstep_status {
			return C.gradstep_parameter_set_numbers(p.c, paths, values, n, &p.said)
		})
	})
}

// Config returns the complete configuration, with every default filled in.
func (p *parameter) Config() (string, error) {
	if err := p.check(); err != nil {
		return "", err
	}
	text, err := readText(func(buffer *C.char, bytes C.uint64_t, written *C.uint64_t) (C.gradstep_status, *C.gradstep_error) {
		return C.gradstep_parameter_config(p.c, buffer, bytes, written, &p.said), &p.said
	})
	runtime.KeepAlive(p)
	return text, err
}

// Average returns a copy of the average that the key "average" sets, or that a schedule-free rule evaluates: a []float64 for a
// Parameter[float64], else a []float32.
func (p *parameter) Average() (any, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	if p.bytes == 8 {
		return average[float64](p)
	}
	return average[float32](p)
}

func average[T Element](p *parameter) (any, error) {
	count := C.uint64_t(p.Len())
	out := orOne(make([]T, p.Len()))
	if err := p.call(func() C.gradstep_status {
		return C.gradstep_parameter_average(p.c, unsafe.Pointer(&out[0]), count, &p.said)
	}); err != nil {
		return nil, err
	}
	return out[:count], nil
}

// ApplyAverage replaces the values by the average, until Restore. Steps return an error of code BadSequence until then.
func (p *parameter) ApplyAverage() error {
	return p.call(func() C.gradstep_status { return C.gradstep_parameter_apply_average(p.c, &p.said) })
}

// Restore brings back the trained values, bit for bit, after ApplyAverage, or after Ascend without a step.
func (p *parameter) Restore() error {
	return p.call(func() C.gradstep_status { return C.gradstep_parameter_restore(p.c, &p.said) })
}

// MarshalBinary serializes values, state and clock, with a checksum, so that a run can resume bit for bit. It does not include
// the configuration.
func (p *parameter) MarshalBinary() ([]byte, error) {
	var bytes C.uint64_t
	if err := p.call(func() C.gradstep_status { return C.gradstep_parameter_state_bytes(p.c, &bytes, &p.said) }); err != nil {
		return nil, err
	}
	out := make([]byte, bytes)
	err := p.call(func() C.gradstep_status {
		return C.gradstep_parameter_save(p.c, unsafe.Pointer(&out[0]), bytes, &bytes, &p.said)
	})
	return out[:bytes], err
}

// UnmarshalBinary restores values, state and clock from the bytes of MarshalBinary. The parameter must have the same shape,
// element type and rule. If the bytes do not match or are damaged, it returns an error and nothing changes.
func (p *parameter) UnmarshalBinary(data []byte) error {
	bytes := C.uint64_t(len(data))
	data = orOne(data)
	return p.call(func() C.gradstep_status {
		return C.gradstep_parameter_load(p.c, unsafe.Pointer(&data[0]), bytes, &p.said)
	})
}
