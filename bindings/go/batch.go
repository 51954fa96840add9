package gradstep

/*
#include <stdlib.h>
#include <gradstep/c/gradstep.h>
*/
import "C"

import (
	"fmt"
	"runtime"
	"unsafe"
)

// Batch updates several parameters in one call. Their element types and optimizers can differ.
//
//	batch, err := gradstep.NewBatch(weights, bias)
//	...
//	copy(weights.Gradient(), gradientOfWeights) // or computed there
//	copy(bias.Gradient(), gradientOfBias)
//	err = batch.Update()
//
// One call through cgo costs about as much as a step of a few hundred elements, and one large step splits better over threads.
// The batch reads each gradient from the memory that [Parameter.Gradient] returns, because cgo does not allow pointers to Go
// pointers. A copy of a Batch is the same batch.
type Batch struct{ *batch }

// batch is what all copies of a Batch share.
type batch struct {
	parameters []*parameter
	handles    **C.gradstep_parameter // C memory, because cgo would check each Go pointer in every call
	gradients  *unsafe.Pointer
	counts     *C.uint64_t
	said       C.gradstep_error
	options    C.gradstep_step_options
}

// NewBatch makes a batch of different parameters. It keeps them alive. Do not close any of them while you use the batch: Update
// then returns an error of code BadHandle.
func NewBatch(parameters ...AnyParameter) (*Batch, error) {
	n := len(parameters)
	b := &batch{said: newError()}
	runtime.SetFinalizer(b, func(b *batch) { b.Close() })
	room := C.size_t(n + 1) // malloc(0) can return NULL
	b.handles = (**C.gradstep_parameter)(C.calloc(room, C.size_t(unsafe.Sizeof(*b.handles))))
	b.gradients = (*unsafe.Pointer)(C.calloc(room, C.size_t(unsafe.Sizeof(*b.gradients))))
	b.counts = (*C.uint64_t)(C.calloc(room, C.sizeof_uint64_t))
	if b.handles == nil || b.gradients == nil || b.counts == nil {
		return nil, &Error{Code: OutOfMemory, Message: "NewBatch: there is no memory for a batch"}
	}
	handles, gradients, counts := unsafe.Slice(b.handles, n), unsafe.Slice(b.gradients, n), unsafe.Slice(b.counts, n)
	for i, each := range parameters {
		p := baseOf(each)
		if err := p.check(); err != nil {
			return nil, err
		}
		if !p.allocateGradient() {
			return nil, &Error{Code: OutOfMemory, Message: "NewBatch: there is no memory for a gradient"}
		}
		b.parameters = append(b.parameters, p)
		handles[i], gradients[i], counts[i] = p.c, p.gradient, C.uint64_t(p.Len())
	}
	return &Batch{b}, nil
}

// baseOf returns the parameter without its element type; nil for nil.
func baseOf(p AnyParameter) *parameter {
	if p == nil {
		return nil
	}
	return p.base()
}

// Update takes one step of every parameter with the gradient in its Gradient(). The call uses the threads of the parameter with
// the most threads. All parameters are checked before any is written. Parameters that draw random numbers get different ids, which
// they keep.
func (b *batch) Update(options ...Option) error {
	return b.call("Update", func(n C.uint64_t) C.gradstep_status {
		return C.gradstep_parameters_update(b.handles, b.gradients, b.counts, n, put(options, &b.options), &b.said)
	})
}

// Ascend moves the values of every parameter along the gradient in its Gradient(): the first half of a step of sharpness-aware
// minimization, as [Parameter.Ascend], by the norm of all gradients together. The norm is NaN if a gradient is not finite and its
// parameter skips such steps: then no parameter has moved.
func (b *batch) Ascend(how SAM) (norm float64, err error) {
	var found C.double
	options := how.toC()
	err = b.call("Ascend", func(n C.uint64_t) C.gradstep_status {
		return C.gradstep_parameters_ascend(b.handles, b.gradients, b.counts, n, &options, &found, &b.said)
	})
	return float64(found), err
}

// Descend brings back the values before Ascend, bit for bit, and takes one step of every parameter with the gradient in its
// Gradient(): the second half. A parameter whose gradient is skipped gets its values back, too. Restore of a parameter brings
// its values back without a step.
func (b *batch) Descend(options ...Option) error {
	return b.call("Descend", func(n C.uint64_t) C.gradstep_status {
		return C.gradstep_parameters_descend(b.handles, b.gradients, b.counts, n, put(options, &b.options), &b.said)
	})
}

// call runs f, which calls C with the arrays of the batch and the number of its parameters.
func (b *batch) call(name string, f func(n C.uint64_t) C.gradstep_status) error {
	if b == nil {
		return notMade("batch", "NewBatch")
	}
	if b.handles == nil {
		return closed("batch")
	}
	gradients, counts := unsafe.Slice(b.gradients, len(b.parameters)), unsafe.Slice(b.counts, len(b.parameters))
	for i, p := range b.parameters {
		if err := p.check(); err != nil {
			return err
		}
		if !p.allocateGradient() { // Append released it
			return &Error{Code: OutOfMemory, Message: name + ": there is no memory for a gradient"}
		}
		gradients[i], counts[i] = p.gradient, C.uint64_t(p.Len())
	}
	err := errorOf(f(C.uint64_t(len(b.parameters))), &b.said)
	runtime.KeepAlive(b)
	return err
}

// Close releases the batch, but not its parameters. A second Close does nothing.
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

// String returns the number of parameters: gradstep.Batch{2 parameters}.
func (b Batch) String() string {
	switch {
	case b.batch == nil:
		return "gradstep.Batch{not made}"
	case b.handles == nil:
		return "gradstep.Batch{closed}"
	}
	return fmt.Sprintf("gradstep.Batch{%d parameters}", len(b.parameters))
}

// MarshalJSON always returns an error. Use SaveFile to write parameters.
func (b *batch) MarshalJSON() ([]byte, error) { return nil, noJSON("batch", "SaveFile") }
