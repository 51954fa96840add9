package gradstep

/*
#include <stdlib.h>
#include <gradstep/c/gradstep.h>
*/
import "C"

import (
	"fmt"
	"runtime"
	"sort"
	"unsafe"
)

// Batch updates several parameters in one call, whatever their elements and optimizers are.
//
//	batch, err := gradstep.NewBatch(weights, bias)
//	...
//	copy(weights.Gradient(), gradientOfWeights) // or computed there
//	copy(bias.Gradient(), gradientOfBias)
//	err = batch.Update()
//
// A call through cgo costs about as much as a step of a few hundred elements, and the threads of a configuration have more to
// share in one. The gradients are in memory of Gradient, since cgo forbids to pass pointers to Go's pointers. A copy of a Batch is
// the same batch.
type Batch struct{ *batch }

// batch is what all copies of a Batch share.
type batch struct {
	parameters []*parameter
	handles    **C.gradstep_parameter // these are C's memory: cgo would look at each of their pointers in every call
	gradients  *unsafe.Pointer
	counts     *C.uint64_t
	said       C.gradstep_error
	options    C.gradstep_step_options
}

// NewBatch makes a batch of different parameters. It keeps them alive; none of them may be closed while it is used.
func NewBatch(parameters ...AnyParameter) (*Batch, error) {
	n := len(parameters)
	b := &batch{said: newError()}
	runtime.SetFinalizer(b, func(b *batch) { b.Close() })
	room := C.size_t(n + 1) // malloc(0) may be NULL
	b.handles = (**C.gradstep_parameter)(C.calloc(room, C.size_t(unsafe.Sizeof(*b.handles))))
	b.gradients = (*unsafe.Pointer)(C.calloc(room, C.size_t(unsafe.Sizeof(*b.gradients))))
	b.counts = (*C.uint64_t)(C.calloc(room, C.sizeof_uint64_t))
	if b.handles == nil || b.gradients == nil || b.counts == nil {
		return nil, &Error{Code: OutOfMemory, Message: "there is no memory for a batch"}
	}
	handles, gradients, counts := unsafe.Slice(b.handles, n), unsafe.Slice(b.gradients, n), unsafe.Slice(b.counts, n)
	for i, each := range parameters {
		p := baseOf(each)
		if err := p.check(); err != nil {
			return nil, err
		}
		if !p.allocateGradient() {
			return nil, &Error{Code: OutOfMemory, Message: "there is no memory for a gradient"}
		}
		b.parameters = append(b.parameters, p)
		handles[i], gradients[i], counts[i] = p.c, p.gradient, C.uint64_t(p.Len())
	}
	return &Batch{b}, nil
}

// baseOf a parameter: nil for one that is nil.
func baseOf(p AnyParameter) *parameter {
	if p == nil {
		return nil
	}
	return p.base()
}

// Update takes one step of every parameter, by what their Gradient() holds. All are checked before any is written.
func (b *batch) Update(options ...Option) error {
	if b == nil {
		return notMade("batch", "NewBatch")
	}
	if b.handles == nil {
		return closed("batch")
	}
	for _, p := range b.parameters {
		if p.c == nil {
			return closed("parameter")
		}
	}
	status := C.gradstep_parameters_update(b.handles, b.gradients, b.counts, C.uint64_t(len(b.parameters)),
		put(options, &b.options), &b.said)
	err := errorOf(status, &b.said)
	runtime.KeepAlive(b)
	return err
}

// Close releases the batch, and none of its parameters.
func (b *batch) Close() error {
	if b == nil {
		return nil
	}
	C.free(unsafe.Pointer(b.handles))
	C.free(unsafe.Pointer(b.gradients))
	C.free(unsafe.Pointer(b.counts))
	b.handles, b.gradients, b.counts, b.parameters = nil, nil, nil, nil
	runtime.KeepAlive(b)
	return nil
}

// String says how many parameters there are: gradstep.Batch{2 parameters}.
func (b Batch) String() string {
	switch {
	case b.batch == nil:
		return "gradstep.Batch{not made}"
	case b.handles == nil:
		return "gradstep.Batch{closed}"
	}
	return fmt.Sprintf("gradstep.Batch{%d parameters}", len(b.parameters))
}

// MarshalJSON refuses: SaveFile writes parameters.
func (b *batch) MarshalJSON() ([]byte, error) { return nil, noJSON("batch", "SaveFile") }

// SaveFile writes parameters under their names to a safetensors file, which C++, Python and any other reader of that format
// open. The file is there once it is whole and on the disk; until then the one before is.
func SaveFile(path string, parameters map[string]AnyParameter) error {
	return withNames(path, parameters, func(handles **C.gradstep_parameter, names **C.char, n C.uint64_t, path *C.char,
		said *C.gradstep_error) C.gradstep_status {
		return C.gradstep_parameters_save_file(handles, names, n, path, said)
	})
}

// LoadFile reads what SaveFile wrote: parameters of the same names, sizes, elements and rules. A run then goes on bit for bit.
// Where a file differs, nothing changes; where the system stops reading in the middle of the data (IOError), a part has been loaded.
func LoadFile(path string, parameters map[string]AnyParameter) error {
	return withNames(path, parameters, func(handles **C.gradstep_parameter, names **C.char, n C.uint64_t, path *C.char,
		said *C.gradstep_error) C.gradstep_status {
		return C.gradstep_parameters_load_file(handles, names, n, path, said)
	})
}

func withNames(path string, parameters map[string]AnyParameter,
	f func(**C.gradstep_parameter, **C.char, C.uint64_t, *C.char, *C.gradstep_error) C.gradstep_status) error {
	names := make([]string, 0, len(parameters))
	for name := range parameters {
		names = append(names, name)
	}
	sort.Strings(names) // the same file each time
	if err := checkText("the path", path); err != nil {
		return err
	}
	n, said := len(names), newError()
	cHandles, cNames := make([]*C.gradstep_parameter, n+1), make([]*C.char, n+1)
	for i, name := range names {
		if err := checkText("a name", name); err != nil {
			return err
		}
		p := baseOf(parameters[name])
		if p == nil {
			return notMade("parameter "+name, "NewParameter or NewRows")
		}
		if cHandles[i] = p.c; cHandles[i] == nil {
			return closed("parameter " + name)
		}
		cNames[i] = C.CString(name)
		defer C.free(unsafe.Pointer(cNames[i]))
	}
	cPath := C.CString(path)
	defer C.free(unsafe.Pointer(cPath))
	status := f(&cHandles[0], &cNames[0], C.uint64_t(n), cPath, &said)
	runtime.KeepAlive(parameters)
	return errorOf(status, &said)
}
