package gradstep

/*
#cgo !gradstep_static LDFLAGS: -lgradstep
#cgo gradstep_static LDFLAGS: -lgradstep_c -lgradstep_runtime -lstdc++ -lpthread -ldl -lm
#include <stdlib.h>
#include <gradstep/c/gradstep.h>
*/
import "C"

import (
	"encoding/json"
	"fmt"
	"math"
	"sort"
	"strings"
	"sync"
	"syscall"
	"unicode/utf8"
	"unsafe"
)

// BFloat16 is a bfloat16 number, stored as its 16 bits: the upper half of a float32.
type BFloat16 uint16

// Float16 is an IEEE 754 half-precision number, stored as its 16 bits.
type Float16 uint16

// Element lists the element types of parameters. Integers support only the rule "add_delta", which adds gradients and wraps
// around.
type Element interface {
	float32 | float64 | BFloat16 | Float16 | int32 | uint32 | int64 | uint64
}

func dtypeOf[T Element]() C.int32_t {
	var element T
	switch any(element).(type) {
	case float32:
		return C.GRADSTEP_FLOAT32
	case float64:
		return C.GRADSTEP_FLOAT64
	case BFloat16:
		return C.GRADSTEP_BFLOAT16
	case Float16:
		return C.GRADSTEP_FLOAT16
	case int32:
		return C.GRADSTEP_INT32
	case uint32:
		return C.GRADSTEP_UINT32
	case int64:
		return C.GRADSTEP_INT64
	default:
		return C.GRADSTEP_UINT64
	}
}

// Code is the kind of an [Error]. docs/reference/errors.md lists the cause and cure of each.
type Code int

// The codes of gradstep.h. docs/reference/errors.md lists the cause and cure of each.
const (
	NullArgument    Code = C.GRADSTEP_NULL_ARGUMENT    // a required pointer is NULL; this package never passes one
	BadHandle       Code = C.GRADSTEP_BAD_HANDLE       // the object is closed, or no constructor made it
	BadConfig       Code = C.GRADSTEP_BAD_CONFIG       // an invalid configuration: the message contains the path
	NotCompiled     Code = C.GRADSTEP_NOT_COMPILED     // the library lacks this combination: the message has the closest ones
	UnsupportedType Code = C.GRADSTEP_UNSUPPORTED_TYPE // the rule does not support the element type
	BadSize         Code = C.GRADSTEP_BAD_SIZE         // a wrong count
	BadBuffer       Code = C.GRADSTEP_BAD_BUFFER       // a slice is misaligned, or overlaps another one
	BadValue        Code = C.GRADSTEP_BAD_VALUE        // a number or an id out of range, or the state of another object
	NotFinite       Code = C.GRADSTEP_NOT_FINITE       // a gradient contains NaN or infinity, and on_nonfinite is "raise"
	BadSequence     Code = C.GRADSTEP_BAD_SEQUENCE     // a call in the wrong order
	OutOfMemory     Code = C.GRADSTEP_OUT_OF_MEMORY    // the system did not provide memory
	IOError         Code = C.GRADSTEP_IO_ERROR         // the system could not read or write a file
	ExecutorFailed  Code = C.GRADSTEP_EXECUTOR_FAILED  // the system did not start the threads
	InternalError   Code = C.GRADSTEP_INTERNAL_ERROR   // a bug: please report it
	RankFailed      Code = C.GRADSTEP_RANK_FAILED      // another rank does not answer, or the transport failed
)

var codeNames = map[Code]string{
	NullArgument: "NullArgument", BadHandle: "BadHandle", BadConfig: "BadConfig", NotCompiled: "NotCompiled",
	UnsupportedType: "UnsupportedType", BadSize: "BadSize", BadBuffer: "BadBuffer", BadValue: "BadValue", NotFinite: "NotFinite",
	BadSequence: "BadSequence", OutOfMemory: "OutOfMemory", IOError: "IOError", ExecutorFailed: "ExecutorFailed",
	InternalError: "InternalError", RankFailed: "RankFailed",
}

// String returns the name of the constant, such as "BadConfig".
func (c Code) String() string {
	if name, ok := codeNames[c]; ok {
		return name
	}
	return fmt.Sprintf("Code(%d)", int(c))
}

// Error is the error type of every function of this package: a code and a message, which contains the value and what is
// allowed. A failed call changes nothing, unless the comment of the function says otherwise.
type Error struct {
	Code    Code
	Message string
	cause   error
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

// Unwrap returns the system error behind an IOError, so that errors.Is(err, fs.ErrNotExist) works; nil if there is none.
func (e *Error) Unwrap() error { return e.cause }

// Is reports whether the codes are equal, so that errors.Is(err, &gradstep.Error{Code: gradstep.BadConfig}) works. If the other
// error has a message, the messages must be equal, too.
func (e *Error) Is(other error) bool {
	o, ok := other.(*Error)
	return ok && o.Code == e.Code && (o.Message == "" || o.Message == e.Message)
}

func errorOf(status C.gradstep_status, said *C.gradstep_error) error {
	if status == C.GRADSTEP_OK {
		return nil
	}
	err := &Error{Code: Code(status), Message: C.GoString(&said.message[0])}
	if said.system_code != 0 {
		err.cause = syscall.Errno(said.system_code)
	}
	return err
}

func newError() C.gradstep_error { return C.gradstep_error{struct_size: C.sizeof_gradstep_error} }

// scratch is what C gets in a call that several goroutines can make at the same time. Go would allocate it in every call.
type scratch struct {
	said    C.gradstep_error
	options C.gradstep_step_options
}

var scratchPool = sync.Pool{New: func() any { return &scratch{said: newError()} }}

// withScratch runs f, which calls C, and converts its status to an error.
func withScratch(f func(*scratch) C.gradstep_status) error {
	s := scratchPool.Get().(*scratch)
	err := errorOf(f(s), &s.said)
	scratchPool.Put(s)
	return err
}

func closed(what string) error {
	return &Error{Code: BadHandle, Message: what + ": is closed; expected one that is open"}
}

// notMade returns the error of a handle that no constructor made.
func notMade(what, constructors string) error {
	return &Error{Code: BadHandle, Message: what + ": nil or a zero value; expected one from " + constructors}
}

// noJSON returns the error of MarshalJSON. Without this method, encoding/json would write {} for a handle.
func noJSON(what, instead string) error {
	return &Error{Code: BadValue, Message: what + ": a handle to memory of the C library is not written as JSON; expected a call of " + instead}
}

// checkText rejects texts with a byte 0, where a C string would end, and texts that are not UTF-8, which files cannot store.
func checkText(where, text string) error {
	if strings.IndexByte(text, 0) >= 0 {
		return &Error{Code: BadValue, Message: fmt.Sprintf("%s: %q has a byte 0 in it; expected UTF-8 without one", where, text)}
	}
	if !utf8.ValidString(text) {
		return &Error{Code: BadValue, Message: fmt.Sprintf("%s: %q is not UTF-8; expected UTF-8", where, text)}
	}
	return nil
}

// nameOfElement returns the name of a Go type without its package: "float32", "BFloat16".
func nameOfElement[T Element]() string {
	var element T
	return strings.TrimPrefix(fmt.Sprintf("%T", element), "gradstep.")
}

// nameOfRule returns the name of the rule in a configuration that a constructor accepted.
func nameOfRule(config string) string {
	text, err := CanonicalConfig(config)
	if err != nil {
		return "unknown"
	}
	return ruleIn(text)
}

// ruleIn returns the name of the rule in a complete configuration.
func ruleIn(text string) string {
	var known struct{ Rule struct{ Name string } }
	if json.Unmarshal([]byte(text), &known) != nil {
		return "unknown"
	}
	return known.Rule.Name
}

func badSize(format string, arguments ...any) error {
	return &Error{Code: BadSize, Message: fmt.Sprintf(format, arguments...)}
}

// Version returns the version of the C library, such as "0.1.0".
func Version() string { return C.GoString(C.gradstep_version()) }

// SIMDLevel returns the instruction set of updates: "sse2", "avx2" (with FMA) or "avx512". It is the best that processor and
// system support, or the one in the environment variable GRADSTEP_SIMD. It is "" if the variable names none that runs here:
// every constructor then returns an error that says so.
func SIMDLevel() string { return C.GoString(C.gradstep_simd_level()) }

// CanonicalConfig returns the complete configuration, as the library reads it, with every default filled in. If it is invalid,
// the code of the error is BadConfig.
func CanonicalConfig(config string) (string, error) {
	text, said := []byte(config+"\x00"), newError()
	return readText(func(buffer *C.char, bytes C.uint64_t, written *C.uint64_t) (C.gradstep_status, *C.gradstep_error) {
		return C.gradstep_config_canonical((*C.char)(unsafe.Pointer(&text[0])), C.size_t(len(config)), buffer, bytes, written,
			&said), &said
	})
}

// readText calls a function for the length of its text, then for the text; again if another goroutine made the text longer.
func readText(read func(*C.char, C.uint64_t, *C.uint64_t) (C.gradstep_status, *C.gradstep_error)) (string, error) {
	var bytes C.uint64_t
	for buffer := make([]byte, 1); ; buffer = make([]byte, bytes+1) {
		status, said := read((*C.char)(unsafe.Pointer(&buffer[0])), C.uint64_t(len(buffer)), &bytes)
		if status == C.GRADSTEP_OK {
			return string(buffer[:bytes]), nil
		}
		if status != C.GRADSTEP_BAD_SIZE || bytes < C.uint64_t(len(buffer)) {
			return "", errorOf(status, said)
		}
	}
}

// Option is an option of a single step, such as RateScale(0.5).
type Option struct {
	what  option
	value float64
	count int64
}

// String returns the call that makes the option: RateScale(0.5).
func (o Option) String() string {
	switch o.what {
	case gradientScale:
		return fmt.Sprintf("GradientScale(%v)", o.value)
	case rateScale:
		return fmt.Sprintf("RateScale(%v)", o.value)
	case rate:
		return fmt.Sprintf("Rate(%v)", o.value)
	case samples:
		return fmt.Sprintf("Samples(%d)", o.count)
	case epoch:
		return fmt.Sprintf("Epoch(%d)", o.count)
	case zeroGradient:
		return "ZeroGradient()"
	case loss:
		return fmt.Sprintf("Loss(%v)", o.value)
	}
	return "Option{}"
}

type option int

const (
	gradientScale option = iota + 1 // 0: a zero Option, which has no effect
	rateScale
	rate
	samples
	epoch
	zeroGradient
	loss
)

// GradientScale multiplies every gradient as it is read. Any finite number.
func GradientScale(scale float64) Option { return Option{what: gradientScale, value: scale} }

// RateScale multiplies the learning rate. Finite and >= 0.
func RateScale(scale float64) Option { return Option{what: rateScale, value: scale} }

// Rate replaces the schedule's learning rate in this step. Finite and >= 0.
func Rate(value float64) Option { return Option{what: rate, value: value} }

// Samples adds the number of samples in this step to the clock. It must be >= 0.
func Samples(n int64) Option { return Option{what: samples, count: n} }

// Epoch sets the clock's epoch, from this step on. It must be >= 0.
func Epoch(n int64) Option { return Option{what: epoch, count: n} }

// Loss is the loss whose gradient the step gets, without loss scaling. The rules polyak_sgd, momo and momo_adam need it; others
// ignore it. Finite.
func Loss(value float64) Option { return Option{what: loss, value: value} }

// ZeroGradient sets every gradient to zero after the step has read it.
func ZeroGradient() Option { return Option{what: zeroGradient} }

// SAM describes the move of [Parameter.Ascend], the first half of a step of sharpness-aware minimization. Begin with [DefaultSAM].
type SAM struct {
	Rho      float64 // the length of the move; finite and >= 0
	Adaptive bool    // ASAM: a^2 g in place of the gradient g, and the norm of a g, where a is abs(w) + Eta
	Eta      float64 // of ASAM; finite and >= 0
	Epsilon  float64 // keeps a gradient of zeros from a division by 0; finite and >= 0
}

// DefaultSAM returns the usual numbers: Rho 0.05, Eta 0.01, Epsilon 1e-12, not Adaptive.
func DefaultSAM() SAM { return SAM{Rho: 0.05, Eta: 0.01, Epsilon: 1e-12} }

func (how SAM) toC() C.gradstep_sam_options {
	out := C.gradstep_sam_options{struct_size: C.sizeof_gradstep_sam_options, rho: C.double(how.Rho), eta: C.double(how.Eta),
		epsilon: C.double(how.Epsilon)}
	if how.Adaptive {
		out.adaptive = 1
	}
	return out
}

// put writes options to `to` and returns it. Without options it returns nil.
func put(options []Option, to *C.gradstep_step_options) *C.gradstep_step_options {
	if len(options) == 0 {
		return nil
	}
	*to = C.gradstep_step_options{struct_size: C.sizeof_gradstep_step_options, gradient_scale: 1, rate_scale: 1,
		rate: C.double(math.NaN()), epoch: -1, loss: C.double(math.NaN())}
	for _, each := range options {
		switch each.what {
		case gradientScale:
			to.gradient_scale = C.double(each.value)
		case rateScale:
			to.rate_scale = C.double(each.value)
		case rate:
			to.rate = C.double(each.value)
			to.given |= C.GRADSTEP_GIVEN_RATE
		case samples:
			to.samples = C.int64_t(each.count)
		case epoch:
			to.epoch = C.int64_t(each.count)
			to.given |= C.GRADSTEP_GIVEN_EPOCH
		case zeroGradient:
			to.zero_gradient = 1
		case loss:
			to.loss = C.double(each.value)
			to.given |= C.GRADSTEP_GIVEN_LOSS
		}
	}
	return to
}

// withNumbers converts numbers and their paths to C arrays, and calls f with them.
func withNumbers(numbers map[string]float64, f func(**C.char, *C.double, C.uint64_t) C.gradstep_status) C.gradstep_status {
	paths := make([]string, 0, len(numbers))
	for path := range numbers {
		paths = append(paths, path)
	}
	sort.Strings(paths) // so that equal calls give equal errors
	cPaths, values := make([]*C.char, len(paths)+1), make([]C.double, len(paths)+1)
	for i, path := range paths {
		cPaths[i], values[i] = C.CString(strings.ReplaceAll(path, "\x00", "\uFFFD")), C.double(numbers[path])
		defer C.free(unsafe.Pointer(cPaths[i]))
	}
	return f(&cPaths[0], &values[0], C.uint64_t(len(paths)))
}

// Clock is the progress of a run.
type Clock struct {
	Step, Samples, Epoch int64 // the steps and samples so far, and the epoch that the option Epoch has set
	// What the rule keeps of all steps, such as the running weight of a schedule-free rule; zeros for most rules. To resume,
	// pass the clock on as it is.
	State [4]float64
}

func (c Clock) toC() C.gradstep_clock {
	out := C.gradstep_clock{struct_size: C.sizeof_gradstep_clock, step: C.int64_t(c.Step), samples: C.int64_t(c.Samples),
		epoch: C.int64_t(c.Epoch)}
	for i, x := range c.State {
		out.state[i] = C.double(x)
	}
	return out
}

func clockOf(c *C.gradstep_clock) Clock {
	out := Clock{Step: int64(c.step), Samples: int64(c.samples), Epoch: int64(c.epoch)}
	for i, x := range c.state {
		out.State[i] = float64(x)
	}
	return out
}

// Slot is one array of an optimizer's state, such as "m", "v" or "master".
type Slot struct {
	Name   string
	Values any // a slice of the slot's element type: []float32, []float64, ...
}

// valuesOf makes a slice of a dtype and copies `data`, memory of the library, to it; nil: zeros.
func valuesOf(dtype C.int32_t, count int, data unsafe.Pointer) any {
	switch dtype {
	case C.GRADSTEP_FLOAT32:
		return copyOf[float32](count, data)
	case C.GRADSTEP_FLOAT64:
		return copyOf[float64](count, data)
	case C.GRADSTEP_BFLOAT16:
		return copyOf[BFloat16](count, data)
	case C.GRADSTEP_FLOAT16:
		return copyOf[Float16](count, data)
	case C.GRADSTEP_INT32:
		return copyOf[int32](count, data)
	case C.GRADSTEP_UINT32:
		return copyOf[uint32](count, data)
	case C.GRADSTEP_INT64:
		return copyOf[int64](count, data)
	default:
		return copyOf[uint64](count, data)
	}
}

func copyOf[T Element](count int, data unsafe.Pointer) []T {
	values := make([]T, count)
	if data != nil {
		copy(values, unsafe.Slice((*T)(data), count))
	}
	return values
}
