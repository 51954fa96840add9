package gradstep

/*
#include <stdlib.h>
#include <string.h>

#include <gradstep/c/gradstep.h>

enum { most_slots = 8 };

// C makes the array of slots, because Go must not pass an array of Go pointers.
#define SLOTS uint8_t *a, uint8_t *b, uint8_t *c, uint8_t *d, uint8_t *e, uint8_t *f, uint8_t *g, uint8_t *h
static gradstep_status initialize_slots(uintptr_t updater, const uint8_t* parameter, uint64_t count, SLOTS,
                                        gradstep_error* error) {
    void* const slots[most_slots] = {a, b, c, d, e, f, g, h};
    return gradstep_updater_initialize((gradstep_updater const*)updater, parameter, slots, count, error);
}
static gradstep_status weights_set(uintptr_t updater, const uint8_t* parameter, uint64_t count, SLOTS,
                                   gradstep_error* error) {
    void* const slots[most_slots] = {a, b, c, d, e, f, g, h};
    return gradstep_updater_weights_set((gradstep_updater const*)updater, parameter, slots, count, 0, error);
}
static gradstep_status apply_slots(uintptr_t updater, uint8_t* parameter, const uint8_t* gradient, uint64_t count, SLOTS,
                                   gradstep_error* error) {
    void* const slots[most_slots] = {a, b, c, d, e, f, g, h};
    return gradstep_updater_apply((gradstep_updater const*)updater, parameter, gradient, slots, count, error);
}
// The same for parts that lie behind each other in each buffer. sizes: the bytes of an element of a parameter and of a slot.
static gradstep_status apply_parts(uintptr_t updater, uint8_t* parameter, const uint8_t* gradient, const uint64_t* counts,
                                   const double* rate_scales, const double* decays, const int64_t* steps, uint64_t n,
                                   uint64_t element_size, uint64_t slot_size, SLOTS, gradstep_error* error) {
    uint8_t* const slots[most_slots] = {a, b, c, d, e, f, g, h};
    gradstep_tensor_options const options = {sizeof(gradstep_tensor_options), 0, rate_scales, decays, steps, NULL};
    void** const pointers = malloc((n + 1) * (3 + most_slots) * sizeof(void*)); // malloc(0) can return NULL
    if (pointers == NULL) {
        strcpy(error->message, "ApplyParts: there is no memory for the addresses of the parts");
        return GRADSTEP_OUT_OF_MEMORY;
    }
    void **const parameters = pointers, **const gradients = pointers + n, **const slots_of = pointers + 2 * n;
    for (uint64_t k = 0, at = 0; k < n; at += counts[k++]) {
        void** const of_part = pointers + 3 * n + most_slots * k;
        parameters[k] = parameter + at * element_size;
        gradients[k] = (uint8_t*)gradient + at * element_size;
        slots_of[k] = of_part;
        for (int i = 0; i < most_slots; ++i) of_part[i] = slots[i] == NULL ? NULL : slots[i] + at * slot_size;
    }
    gradstep_status const status = gradstep_updater_apply_with(
        (gradstep_updater const*)updater, parameters, (const void* const*)gradients, (void* const* const*)slots_of, counts, NULL, n,
        &options, error);
    free(pointers);
    return status;
}
static gradstep_status norm_of(int32_t dtype, const uint8_t* gradient, uint64_t count, double* norm, gradstep_error* error) {
    const void* const at = gradient;
    return gradstep_global_norm(dtype, &at, &count, 1, NULL, norm, error);
}
static gradstep_status nonfinite_of(int32_t dtype, const uint8_t* gradient, uint64_t count, uint64_t* none, uint64_t* element,
                                    gradstep_error* error) {
    const void* const at = gradient;
    return gradstep_first_nonfinite(dtype, &at, &count, 1, NULL, none, element, error);
}
*/
import "C"

import (
	"fmt"
	"math"
	"runtime"
	"unsafe"
)

// Updater is an optimizer that updates values and state in your own slices:
//
//	optimizer, err := gradstep.NewUpdater[float32](config)
//	state, err := optimizer.Initialize(values)
//	...
//	err = optimizer.NextStep()
//	err = optimizer.Apply(values, gradient, state)
//
// Several goroutines can call Apply with different tensors at the same time. While one goroutine calls another method, no other
// goroutine may use the updater. A copy of an Updater is the same updater, with one clock.
type Updater[T Element] struct{ *updater }

// updater is what all copies of an Updater share.
type updater struct {
	c      *C.gradstep_updater // nil: closed
	slots  []C.gradstep_slot
	names  []string // the names of the slots
	config string   // the string that the constructor got
}

// NewUpdater makes an updater for values and gradients of type T. config is the JSON of the optimizer
// (docs/how_to/configuration.md). If it is invalid, the code of the error is BadConfig or NotCompiled.
func NewUpdater[T Element](config string) (*Updater[T], error) {
	text, said := []byte(config+"\x00"), newError()
	u := &updater{config: config}
	if status := C.gradstep_updater_create((*C.char)(unsafe.Pointer(&text[0])), C.size_t(len(config)), dtypeOf[T](), &u.c,
		&said); status != C.GRADSTEP_OK {
		return nil, errorOf(status, &said)
	}
	runtime.SetFinalizer(u, func(u *updater) { u.Close() })
	var count C.uint64_t
	if err := errorOf(C.gradstep_updater_slot_count(u.c, &count, &said), &said); err != nil {
		return nil, err
	}
	if count > C.most_slots {
		return nil, &Error{Code: NotCompiled, Message: fmt.Sprintf("config: the optimizer has %d slots; expected at most %d", count, C.most_slots)}
	}
	u.slots, u.names = make([]C.gradstep_slot, count), make([]string, count)
	for i := range u.slots {
		u.slots[i].struct_size = C.sizeof_gradstep_slot
		if err := errorOf(C.gradstep_updater_slot(u.c, C.uint64_t(i), &u.slots[i], &said), &said); err != nil {
			return nil, err
		}
		u.names[i] = C.GoString(&u.slots[i].name[0])
	}
	return &Updater[T]{u}, nil
}

// check returns an error if the updater is closed, or if no constructor made it.
func (u *updater) check() error {
	if u == nil {
		return notMade("updater", "NewUpdater")
	}
	if u.c == nil {
		return closed("updater")
	}
	return nil
}

// String describes the updater: gradstep.Updater[float32]{rule: adam}. It also works after Close.
func (u Updater[T]) String() string {
	text := "gradstep.Updater[" + nameOfElement[T]() + "]{"
	if u.updater == nil {
		return text + "not made}"
	}
	text += "rule: " + nameOfRule(u.config)
	if u.c == nil {
		text += ", closed"
	}
	return text + "}"
}

// MarshalJSON always returns an error. The state is in your slices; Clock and Config return the rest.
func (u *updater) MarshalJSON() ([]byte, error) { return nil, noJSON("updater", "Config and Clock") }

// Close releases the memory. Later calls return an error of code BadHandle; a second Close does nothing.
func (u *updater) Close() error {
	if u == nil {
		return nil
	}
	C.gradstep_updater_release(u.c)
	u.c = nil
	runtime.KeepAlive(u)
	return nil
}

func (u *updater) call(f func(*C.gradstep_error) C.gradstep_status) error {
	if err := u.check(); err != nil {
		return err
	}
	err := withScratch(func(s *scratch) C.gradstep_status { return f(&s.said) })
	runtime.KeepAlive(u)
	return err
}

// Initialize returns the initial state of a tensor, in new slices. values are the initial values of the tensor. Averages account for
// the steps of the clock so far.
func (u *Updater[T]) Initialize(values []T) ([]Slot, error) {
	if err := u.check(); err != nil {
		return nil, err
	}
	state := make([]Slot, len(u.slots))
	for i := range state {
		info := &u.slots[i]
		count := int(info.count) // 1: one number for the whole tensor
		if count == 0 {
			count = len(values)
		}
		state[i] = Slot{u.names[i], valuesOf(info.dtype, count, nil)}
	}
	at, err := u.addresses(state, len(values))
	if err != nil {
		return nil, err
	}
	count := C.uint64_t(len(values))
	err = u.call(func(said *C.gradstep_error) C.gradstep_status {
		return C.initialize_slots(C.uintptr_t(uintptr(unsafe.Pointer(u.c))), bytesAt(values), count, at[0], at[1], at[2], at[3], at[4], at[5], at[6], at[7], said)
	})
	if err != nil {
		return nil, err
	}
	return state, nil
}

// WeightsSet adapts the state of a tensor after your program has set its values, for example from a file. Training goes on from the new
// values: state that contains weights follows them, and a master copy becomes them. Moments and the clock do not change.
func (u *Updater[T]) WeightsSet(values []T, state []Slot) error {
	at, err := u.addresses(state, len(values))
	if err != nil {
		return err
	}
	count := C.uint64_t(len(values))
	return u.call(func(said *C.gradstep_error) C.gradstep_status {
		return C.weights_set(C.uintptr_t(uintptr(unsafe.Pointer(u.c))), bytesAt(values), count, at[0], at[1], at[2], at[3], at[4], at[5], at[6],
			at[7], said)
	})
}

// addresses returns the addresses of slots. It checks that they match the updater and `count` elements.
func (u *updater) addresses(state []Slot, count int) (at [C.most_slots]*C.uint8_t, err error) {
	if err := u.check(); err != nil {
		return at, err
	}
	if len(state) != len(u.slots) {
		return at, badSize("state: has %d slots; expected %d, as the optimizer has", len(state), len(u.slots))
	}
	for i, slot := range state {
		info := &u.slots[i]
		dtype, length, address := describe(slot.Values)
		wanted := int(info.count)
		if wanted == 0 {
			wanted = count
		}
		if slot.Name != u.names[i] {
			return at, &Error{Code: BadValue, Message: fmt.Sprintf("slot %d: is named %q; expected %q, as Initialize names it", i, slot.Name,
				u.names[i])}
		}
		if dtype != info.dtype || length != wanted {
			return at, badSize("slot %s: is a %T of length %d; expected a %T of length %d", u.names[i],
				slot.Values, length, valuesOf(info.dtype, 0, nil), wanted)
		}
		at[i] = address
	}
	return at, nil
}

// describe returns the dtype, length and address of a slice, which valuesOf makes. The dtype is -1 for any other value.
func describe(values any) (dtype C.int32_t, length int, address *C.uint8_t) {
	switch s := values.(type) {
	case []float32:
		return C.GRADSTEP_FLOAT32, len(s), bytesAt(s)
	case []float64:
		return C.GRADSTEP_FLOAT64, len(s), bytesAt(s)
	case []BFloat16:
		return C.GRADSTEP_BFLOAT16, len(s), bytesAt(s)
	case []Float16:
		return C.GRADSTEP_FLOAT16, len(s), bytesAt(s)
	case []int32:
		return C.GRADSTEP_INT32, len(s), bytesAt(s)
	case []uint32:
		return C.GRADSTEP_UINT32, len(s), bytesAt(s)
	case []int64:
		return C.GRADSTEP_INT64, len(s), bytesAt(s)
	case []uint64:
		return C.GRADSTEP_UINT64, len(s), bytesAt(s)
	}
	return -1, 0, nil
}

// NextStep prepares the next step and advances the clock. Then call Apply for every tensor of the model.
func (u *updater) NextStep(options ...Option) error {
	var step C.gradstep_step_options
	return u.call(func(said *C.gradstep_error) C.gradstep_status {
		return C.gradstep_updater_next_step(u.c, put(options, &step), said)
	})
}

// Apply applies the step that NextStep prepared to one tensor. The state is the result of Initialize. The slices must not overlap
// (BadBuffer).
func (u *Updater[T]) Apply(values, gradient []T, state []Slot) error {
	if len(gradient) != len(values) {
		return badSize("gradient: has %d elements; expected %d, as the tensor has", len(gradient), len(values))
	}
	at, err := u.addresses(state, len(values))
	if err != nil {
		return err
	}
	count := C.uint64_t(len(values))
	return u.call(func(said *C.gradstep_error) C.gradstep_status {
		return C.apply_slots(C.uintptr_t(uintptr(unsafe.Pointer(u.c))), bytesAt(values), bytesAt(gradient), count, at[0], at[1], at[2], at[3], at[4],
			at[5], at[6], at[7], said)
	})
}

// Part describes one of the tensors that lie behind each other in the slices of [Updater.ApplyParts].
type Part struct {
	count            int
	rateScale, decay float64
	step             int64
}

// NewPart describes a tensor of count elements.
func NewPart(count int) Part { return Part{count: count, rateScale: 1, decay: 1} }

// WithRateScale returns the same part with a factor that multiplies its learning rate; finite and >= 0.
func (p Part) WithRateScale(factor float64) Part { p.rateScale = factor; return p }

// WithDecay returns the same part with a factor that multiplies the decay of the regularizer; finite and >= 0. 0: no decay; clipping
// stays.
func (p Part) WithDecay(factor float64) Part { p.decay = factor; return p }

// WithStep returns the same part with its own number of the step, such as a lower one of a tensor that joined later; >= 1. 0: the
// clock's.
func (p Part) WithStep(number int64) Part { p.step = number; return p }

// ApplyParts applies the step that NextStep prepared to several tensors in one call. The tensors lie behind each other in values,
// gradient and each slot of state, which Initialize made from all values. The clip "clip_global_norm" of the configuration limits
// the norm of the whole gradient. For random numbers, the tensors of a step are counted over all calls: if several goroutines
// apply a step, their order decides.
//
//	parts := []gradstep.Part{gradstep.NewPart(len(weights)), gradstep.NewPart(len(bias)).WithDecay(0)}
//	err = optimizer.ApplyParts(all, gradient, state, parts)
//
// A rule that keeps one number for each tensor needs a state for each part, and is an error (BadSize): use Apply.
func (u *Updater[T]) ApplyParts(values, gradient []T, state []Slot, parts []Part) error {
	if len(gradient) != len(values) {
		return badSize("gradient: has %d elements; expected %d, as the tensors have", len(gradient), len(values))
	}
	at, err := u.addresses(state, len(values))
	if err != nil {
		return err
	}
	n := len(parts)
	counts, steps := make([]C.uint64_t, n+1), make([]C.int64_t, n+1) // an address also of none
	rateScales, decays := make([]C.double, n+1), make([]C.double, n+1)
	sum := 0
	for k, part := range parts {
		if part.count < 0 || part.count > len(values)-sum {
			return badSize("part %d: has %d elements; expected at most %d, the rest of the values", k, part.count, len(values)-sum)
		}
		sum += part.count
		counts[k], steps[k] = C.uint64_t(part.count), C.int64_t(part.step)
		rateScales[k], decays[k] = C.double(part.rateScale), C.double(part.decay)
	}
	if sum != len(values) {
		return badSize("parts: have %d elements together; expected %d, as the values have", sum, len(values))
	}
	slotSize := C.uint64_t(0)
	for i := range u.slots {
		if u.slots[i].count != 0 {
			return badSize("slot %s: is one number for a whole tensor; expected one for each element; use Apply", u.names[i])
		}
		slotSize = sizeOfDtype(u.slots[i].dtype)
	}
	var element T
	return u.call(func(said *C.gradstep_error) C.gradstep_status {
		return C.apply_parts(C.uintptr_t(uintptr(unsafe.Pointer(u.c))), bytesAt(values), bytesAt(gradient), &counts[0], &rateScales[0],
			&decays[0], &steps[0], C.uint64_t(n), C.uint64_t(unsafe.Sizeof(element)), slotSize, at[0], at[1], at[2], at[3], at[4], at[5],
			at[6], at[7], said)
	})
}

// sizeOfDtype returns the bytes of an element of a dtype.
func sizeOfDtype(dtype C.int32_t) C.uint64_t {
	switch dtype {
	case C.GRADSTEP_FLOAT64, C.GRADSTEP_INT64, C.GRADSTEP_UINT64:
		return 8
	case C.GRADSTEP_FLOAT16, C.GRADSTEP_BFLOAT16:
		return 2
	}
	return 4
}

// GlobalNorm returns the Euclidean norm of gradients together. Integers are an error (UnsupportedType). The norm is not finite if an
// element is not.
func GlobalNorm[T Element](gradients ...[]T) (float64, error) {
	norm := 0.0
	for _, each := range gradients {
		said, of := newError(), C.double(0)
		status := C.norm_of(dtypeOf[T](), bytesAt(each), C.uint64_t(len(each)), &of, &said)
		if status != C.GRADSTEP_OK {
			return 0, errorOf(status, &said)
		}
		norm = math.Hypot(norm, float64(of)) // exact for one gradient
	}
	return norm, nil
}

// FirstNonFinite finds the first NaN or infinity in gradients. It returns the index of the gradient and the index of the element in it,
// or -1 and -1 if all elements are finite. Integers are an error (UnsupportedType).
func FirstNonFinite[T Element](gradients ...[]T) (gradient, element int, err error) {
	for k, each := range gradients {
		said, none, at := newError(), C.uint64_t(0), C.uint64_t(0)
		status := C.nonfinite_of(dtypeOf[T](), bytesAt(each), C.uint64_t(len(each)), &none, &at, &said)
		if status != C.GRADSTEP_OK {
			return -1, -1, errorOf(status, &said)
		}
		if none == 0 {
			return k, int(at), nil
		}
	}
	return -1, -1, nil
}

// Clock returns the progress of the run: steps, samples and epoch.
func (u *updater) Clock() (Clock, error) {
	now := C.gradstep_clock{struct_size: C.sizeof_gradstep_clock}
	err := u.call(func(said *C.gradstep_error) C.gradstep_status { return C.gradstep_updater_clock(u.c, &now, said) })
	return clockOf(&now), err
}

// Seek sets the clock to the progress of a run. Call NextStep next.
func (u *updater) Seek(to Clock) error {
	c := to.toC()
	return u.call(func(said *C.gradstep_error) C.gradstep_status { return C.gradstep_updater_seek(u.c, &c, said) })
}

// SetNumbers changes hyperparameters, and keeps the clock. The keys are paths in the configuration, such as "rule.beta1". Call
// NextStep next. All numbers are checked before any is changed (BadConfig).
func (u *updater) SetNumbers(numbers map[string]float64) error {
	return u.call(func(said *C.gradstep_error) C.gradstep_status {
		return withNumbers(numbers, func(paths **C.char, values *C.double, n C.uint64_t) C.gradstep_status {
			return C.gradstep_updater_set_numbers(u.c, paths, values, n, said)
		})
	})
}

// Config returns the complete configuration, with every default filled in.
func (u *updater) Config() (string, error) {
	if err := u.check(); err != nil {
		return "", err
	}
	said := newError()
	text, err := readText(func(buffer *C.char, bytes C.uint64_t, written *C.uint64_t) (C.gradstep_status, *C.gradstep_error) {
		return C.gradstep_updater_config(u.c, buffer, bytes, written, &said), &said
	})
	runtime.KeepAlive(u)
	return text, err
}
