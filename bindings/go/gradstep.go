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
	"syscall"
	"unicode/utf8"
	"unsafe"
)

// BFloat16 is the upper half of a float32, as bits.
type BFloat16 uint16

// Float16 is an IEEE half, as bits.
type Float16 uint16

// Element is what a parameter is made of. The integers have one rule, "add_delta", which adds gradients and wraps around.
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

// Code is the kind of an [Error].
type Code int

// The codes of gradstep.h. docs/reference/errors.md lists the cause and cure of each.
const (
	NullArgument    Code = C.GRADSTEP_NULL_ARGUMENT
	BadHandle       Code = C.GRADSTEP_BAD_HANDLE // closed
	BadConfig       Code = C.GRADSTEP_BAD_CONFIG // the message names the place
	NotCompiled     Code = C.GRADSTEP_NOT_COMPILED
	UnsupportedType Code = C.GRADSTEP_UNSUPPORTED_TYPE
	BadSize         Code = C.GRADSTEP_BAD_SIZE
	BadBuffer       Code = C.GRADSTEP_BAD_BUFFER
	BadValue        Code = C.GRADSTEP_BAD_VALUE
	NotFinite       Code = C.GRADSTEP_NOT_FINITE // a gradient, where on_nonfinite is "raise"
	BadSequence     Code = C.GRADSTEP_BAD_SEQUENCE
	OutOfMemory     Code = C.GRADSTEP_OUT_OF_MEMORY
	IOError         Code = C.GRADSTEP_IO_ERROR
	ExecutorFailed  Code = C.GRADSTEP_EXECUTOR_FAILED // the system gives no threads
	InternalError   Code = C.GRADSTEP_INTERNAL_ERROR
)

var codeNames = map[Code]string{
	NullArgument: "NullArgument", BadHandle: "BadHandle", BadConfig: "BadConfig", NotCompiled: "NotCompiled",
	UnsupportedType: "UnsupportedType", BadSize: "BadSize", BadBuffer: "BadBuffer", BadValue: "BadValue", NotFinite: "NotFinite",
	BadSequence: "BadSequence", OutOfMemory: "OutOfMemory", IOError: "IOError", ExecutorFailed: "ExecutorFailed",
	InternalError: "InternalError",
}

// String is the name of the constant, such as "BadConfig".
func (c Code) String() string {
	if name, ok := codeNames[c]; ok {
		return name
	}
	return fmt.Sprintf("Code(%d)", int(c))
}

// Error is the error of every function of this package: a code and a message. A failed call changes nothing, unless the comment of
// the function says otherwise.
type Error struct {
	Code    Code
	Message string
	cause   error
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

// Unwrap returns the error of the system behind an IOError, so that errors.Is(err, fs.ErrNotExist) works; nil if there is none.
func (e *Error) Unwrap() error { return e.cause }

// Is makes errors.Is(err, &gradstep.Error{Code: gradstep.BadConfig}) compare codes.
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

func closed(what string) error { return &Error{Code: BadHandle, Message: "the " + what + " is closed"} }

// notMade is the error of a handle that no constructor has made.
func notMade(what, constructors string) error {
	return &Error{Code: BadHandle, Message: what + ": nil or a zero value; expected one from " + constructors}
}

// noJSON is the error of a handle that is to be written as JSON: without it, encoding/json writes {}.
func noJSON(what, instead string) error {
	return &Error{Code: BadValue, Message: what + ": a handle to memory of the C library is not written as JSON; expected a call of " + instead}
}

// checkText refuses what C would read up to its first byte 0, and what no file of names in UTF-8 can have.
func checkText(where, text string) error {
	if strings.IndexByte(text, 0) >= 0 {
		return &Error{Code: BadValue, Message: fmt.Sprintf("%s: %q has a byte 0 in it; expected UTF-8 without one", where, text)}
	}
	if !utf8.ValidString(text) {
		return &Error{Code: BadValue, Message: fmt.Sprintf("%s: %q is not UTF-8; expected UTF-8", where, text)}
	}
	return nil
}

// nameOfElement is the name of a Go type as its users write it: "float32", "BFloat16".
func nameOfElement[T Element]() string {
	var element T
	return strings.TrimPrefix(fmt.Sprintf("%T", element), "gradstep.")
}

// nameOfRule gives the name of the rule in a configuration that a constructor has accepted.
func nameOfRule(config string) string {
	var known struct{ Rule struct{ Name string } }
	text, err := CanonicalConfig(config)
	if err == nil {
		err = json.Unmarshal([]byte(text), &known)
	}
	if err != nil {
		return "unknown"
	}
	return known.Rule.Name
}

func badSize(format string, arguments ...any) error {
	return &Error{Code: BadSize, Message: fmt.Sprintf(format, arguments...)}
}

// Version of the library, as "0.1.0".
func Version() string { return C.GoString(C.gradstep_version()) }

// SIMDLevel is the instruction set that updates run with: "sse2", "avx2" or "avx512". It is "" where the environment variable
// GRADSTEP_SIMD asks for one that does not run here; every constructor then says so.
func SIMDLevel() string { return C.GoString(C.gradstep_simd_level()) }

// CanonicalConfig returns the configuration as the library reads it, with all defaults.
func CanonicalConfig(config string) (string, error) {
	text, said := []byte(config+"\x00"), newError()
	return readText(func(buffer *C.char, bytes C.uint64_t, written *C.uint64_t) (C.gradstep_status, *C.gradstep_error) {
		return C.gradstep_config_canonical((*C.char)(unsafe.Pointer(&text[0])), C.size_t(len(config)), buffer, bytes, written,
			&said), &said
	})
}

// readText asks for the bytes of a text, then for the text.
func readText(read func(*C.char, C.uint64_t, *C.uint64_t) (C.gradstep_status, *C.gradstep_error)) (string, error) {
	var bytes C.uint64_t
	if status, said := read(nil, 0, &bytes); status != C.GRADSTEP_OK && status != C.GRADSTEP_BAD_SIZE {
		return "", errorOf(status, said)
	}
	buffer := make([]byte, bytes+1)
	status, said := read((*C.char)(unsafe.Pointer(&buffer[0])), bytes+1, &bytes)
	if status != C.GRADSTEP_OK {
		return "", errorOf(status, said)
	}
	return string(buffer[:bytes]), nil
}

// Option is an option for a single step.
type Option struct {
	what  option
	value float64
	count int64
}

// String is the call that makes the option: RateScale(0.5).
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
	}
	return "Option{}"
}

type option int

const (
	gradientScale option = iota + 1 // 0: no constructor has made it, and it does nothing
	rateScale
	rate
	samples
	epoch
	zeroGradient
)

// GradientScale multiplies every gradient as it is read.
func GradientScale(scale float64) Option { return Option{what: gradientScale, value: scale} }

// RateScale multiplies the learning rate.
func RateScale(scale float64) Option { return Option{what: rateScale, value: scale} }

// Rate is the learning rate of this step, instead of the schedule's; finite, not negative.
func Rate(value float64) Option { return Option{what: rate, value: value} }

// Samples that this step has seen: the clock advances by them.
func Samples(n int64) Option { return Option{what: samples, count: n} }

// Epoch is the clock's from this step on; not negative.
func Epoch(n int64) Option { return Option{what: epoch, count: n} }

// ZeroGradient sets every gradient to zero as soon as it is read.
func ZeroGradient() Option { return Option{what: zeroGradient} }

// put writes options to `to`, and returns it; without options it returns nil.
func put(options []Option, to *C.gradstep_step_options) *C.gradstep_step_options {
	if len(options) == 0 {
		return nil
	}
	*to = C.gradstep_step_options{struct_size: C.sizeof_gradstep_step_options, gradient_scale: 1, rate_scale: 1,
		rate: C.double(math.NaN()), epoch: -1}
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
		}
	}
	return to
}

// withNumbers calls f with numbers and their paths as C takes them.
func withNumbers(numbers map[string]float64, f func(**C.char, *C.double, C.uint64_t) C.gradstep_status) C.gradstep_status {
	paths := make([]string, 0, len(numbers))
	for path := range numbers {
		paths = append(paths, path)
	}
	sort.Strings(paths) // the same error each time
	cPaths, values := make([]*C.char, len(paths)+1), make([]C.double, len(paths)+1)
	for i, path := range paths {
		cPaths[i], values[i] = C.CString(strings.ReplaceAll(path, "\x00", "\uFFFD")), C.double(numbers[path])
		defer C.free(unsafe.Pointer(cPaths[i]))
	}
	return f(&cPaths[0], &values[0], C.uint64_t(len(paths)))
}

// Clock is where a run stands.
type Clock struct {
	Step, Samples, Epoch int64 // steps and samples so far
}

func (c Clock) toC() C.gradstep_clock {
	return C.gradstep_clock{struct_size: C.sizeof_gradstep_clock, step: C.int64_t(c.Step), samples: C.int64_t(c.Samples),
		epoch: C.int64_t(c.Epoch)}
}

func clockOf(c *C.gradstep_clock) Clock {
	return Clock{int64(c.step), int64(c.samples), int64(c.epoch)}
}

// Slot is one piece of an optimizer's state: "m", "v", "master", ...
type Slot struct {
	Name   string
	Values any // []float32, []float64, ... as the slot's type is
}

// valuesOf makes a slice of a dtype, and copies to it what is at `data`, memory of the library's; nil: zeros.
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
