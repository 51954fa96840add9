// A parameter server's use of the C library, as it was written for PaddlePaddle: parameters arrive as bytes with a serialized
// OptimizerConfig, gradients as bytes, states go to checkpoints as bytes. It trains every optimizer under both policies in both
// elements, stops half way, goes on from the state, and compares with the formulas.
package main

// #include <stdlib.h>
// #include <string.h>
// #include <gradstep/c/paddle_optimizer.h>
import "C"

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"unsafe"
)

// ---- The server ----

type elementType int

const (
	float32Type elementType = C.PADDLE_ELEMENT_TYPE_FLOAT32
	float64Type elementType = C.PADDLE_ELEMENT_TYPE_FLOAT64
)

func (e elementType) size() int {
	if e == float32Type {
		return C.sizeof_float
	}
	return C.sizeof_double
}

type optimizer struct {
	handle  *C.struct_paddle_optimizer
	element elementType
}

func newOptimizer(config []byte, element elementType, content []byte, state []byte) (*optimizer, error) {
	buffer := C.malloc(C.size_t(len(content)))
	C.memcpy(buffer, unsafe.Pointer(&content[0]), C.size_t(len(content)))
	var stateBytes *C.char
	if len(state) != 0 {
		stateBytes = (*C.char)(unsafe.Pointer(&state[0]))
	}
	var configBytes *C.uchar // PaddlePaddle's server, too, gives NULL for a parameter that came without a configuration
	if len(config) != 0 {
		configBytes = (*C.uchar)(unsafe.Pointer(&config[0]))
	}
	handle := C.paddle_create_optimizer(configBytes, C.int(len(config)), C.paddle_element_type(element), buffer,
		C.int(len(content)), stateBytes, C.int(len(state)))
	if handle == nil {
		C.free(buffer)
		return nil, fmt.Errorf("the optimizer was refused")
	}
	return &optimizer{handle, element}, nil
}

func (o *optimizer) weights() []byte {
	var buffer unsafe.Pointer
	count := int(C.paddle_optimizer_get_weights(o.handle, &buffer))
	return C.GoBytes(buffer, C.int(count*o.element.size()))
}

func (o *optimizer) state() []byte {
	var buffer *C.char
	length := C.paddle_optimizer_get_state(o.handle, &buffer)
	defer C.free(unsafe.Pointer(buffer))
	return C.GoBytes(unsafe.Pointer(buffer), length)
}

func (o *optimizer) update(gradient []byte) error {
	code := C.paddle_update_parameter(o.handle, C.paddle_element_type(o.element), unsafe.Pointer(&gradient[0]),
		C.int(len(gradient)))
	if code != C.PADDLE_SUCCESS {
		return fmt.Errorf("the update returned %d", code)
	}
	return nil
}

func (o *optimizer) cleanup() {
	C.paddle_release_optimizer(o.handle)
	o.handle = nil
}

// ---- Messages, byte by byte ----

type message []byte

func (m message) varint(x uint64) message {
	for ; x > 0x7f; x >>= 7 {
		m = append(m, byte(x)|0x80)
	}
	return append(m, byte(x))
}
func (m message) integer(field int, x uint64) message { return m.varint(uint64(field) << 3).varint(x) }
func (m message) number(field int, x float64) message {
	var bits [8]byte
	binary.LittleEndian.PutUint64(bits[:], math.Float64bits(x))
	return append(m.varint(uint64(field)<<3|1), bits[:]...)
}
func (m message) inside(field int, x message) message {
	return append(m.varint(uint64(field)<<3|2).varint(uint64(len(x))), x...)
}

func toBytes(element elementType, x []float64) []byte {
	var all bytes.Buffer
	for _, value := range x {
		if element == float32Type {
			binary.Write(&all, binary.LittleEndian, float32(value))
		} else {
			binary.Write(&all, binary.LittleEndian, value)
		}
	}
	return all.Bytes()
}

func fromBytes(element elementType, content []byte) []float64 {
	x := make([]float64, len(content)/element.size())
	for i := range x {
		if element == float32Type {
			x[i] = float64(math.Float32frombits(binary.LittleEndian.Uint32(content[4*i:])))
		} else {
			x[i] = math.Float64frombits(binary.LittleEndian.Uint64(content[8*i:]))
		}
	}
	return x
}

// ---- The formulas ----

type weight struct{ w, s, s2 float64 }

type rule struct {
	name   string
	config message
	step   func(x *weight, g, rate float64, t int)
}

const momentum, decay, rho, epsilon, beta1, beta2 = 0.75, 0.1, 0.95, 0.125, 0.9, 0.99

var rules = []rule{
	{"sgd", message{}.integer(1, 1).inside(3, message{}.number(21, momentum).number(23, decay).integer(24, 0)),
		func(x *weight, g, rate float64, t int) {
			x.s = momentum*x.s - rate*g - rate*decay*x.w
			x.w += x.s
		}},
	{"adadelta", message{}.integer(1, 2).inside(4, message{}.number(31, epsilon).number(32, decay).number(33, rho)),
		func(x *weight, g, rate float64, t int) {
			x.s = rho*x.s + (1-rho)*g*g
			d := math.Sqrt(x.s2+epsilon) / math.Sqrt(x.s+epsilon) * g
			x.s2 = rho*x.s2 + (1-rho)*d*d
			x.w -= rate*d + rate*decay*x.w
		}},
	{"adagrad", message{}.integer(1, 3).inside(5, message{}.number(41, epsilon).number(42, decay)),
		func(x *weight, g, rate float64, t int) {
			x.s += g * g
			x.w -= rate*g/math.Sqrt(x.s+epsilon) + rate*decay*x.w
		}},
	{"adam", message{}.integer(1, 4).inside(6,
		message{}.number(41, beta1).number(42, beta2).number(43, epsilon).number(44, decay)),
		func(x *weight, g, rate float64, t int) {
			rate *= math.Sqrt(1-math.Pow(beta2, float64(t))) / (1 - math.Pow(beta1, float64(t)))
			x.s = beta1*x.s + (1-beta1)*g
			x.s2 = beta2*x.s2 + (1-beta2)*g*g
			x.w -= rate * (x.s/math.Sqrt(x.s2+epsilon) + decay*x.w)
		}},
}

type policy struct {
	name   string
	config message
	rate   func(t int) float64
}

var policies = []policy{
	{"const", message{}.integer(11, 0).inside(12, message{}.number(1, 0.02)), func(int) float64 { return 0.02 }},
	{"linear", message{}.integer(11, 1).inside(13, message{}.number(1, 0.02).number(2, 0.001).number(3, 0.005)),
		func(t int) float64 { return math.Max(0.02-0.001*float64(t), 0.005) }},
}

// ---- A run ----

const count, steps = 37, 20

func gradient(t int) []float64 {
	g := make([]float64, count)
	for i := range g {
		g[i] = 0.5 + float64((i*7+t*5)%32)/64
	}
	return g
}

func run(with rule, policy policy, element elementType) error {
	config := append(append(message{}, with.config...), policy.config...)
	initial := make([]float64, count)
	expected := make([]weight, count)
	allowed := make([]float64, count) // test/paddle_optimizer/paddle_optimizer.cpp derives it
	for i := range initial {
		initial[i] = 5 + float64(i)/16
		expected[i].w = initial[i]
	}
	unit := math.Pow(2, -51)
	if element == float32Type {
		unit = math.Pow(2, -22)
	}

	o, err := newOptimizer(config, element, toBytes(element, initial), nil)
	if err != nil {
		return err
	}
	for t := 1; t <= steps; t++ {
		if t == steps/2 { // a new server, with what the last one left
			state := o.state()
			o.cleanup()
			if o, err = newOptimizer(config, element, toBytes(element, make([]float64, count)), state); err != nil {
				return err
			}
			if !bytes.Equal(o.state(), state) {
				return fmt.Errorf("the state is not what was restored")
			}
		}
		g := gradient(t)
		if err := o.update(toBytes(element, g)); err != nil {
			return err
		}
		for i := range expected {
			before := expected[i].w
			with.step(&expected[i], g[i], policy.rate(t), t)
			moved := math.Abs(expected[i].w - before)
			allowed[i] += unit * (float64(t*t+9*t+8)*moved + 3*math.Abs(expected[i].w))
		}
	}
	for i, got := range fromBytes(element, o.weights()) {
		if !(math.Abs(got-expected[i].w) <= allowed[i]) {
			return fmt.Errorf("weight %d is %v, expected %v, may be off by %v", i, got, expected[i].w, allowed[i])
		}
	}
	if o.update(toBytes(element, make([]float64, count+1))) == nil {
		return fmt.Errorf("a gradient of another size was taken")
	}
	o.cleanup()
	return nil
}

// checkpoint does what TestCheckpointWithData of PaddlePaddle's go/pserver does: a parameter arrives without a configuration, a
// checkpoint of it has its weights, that configuration and the state, and another server begins with the checkpoint. Then both
// servers take a step, which is one of SGD with a rate of 1.
func checkpoint(element elementType) error {
	const many = 50000
	initial, g, after := make([]float64, many), make([]float64, many), make([]float64, many)
	for i := range initial {
		initial[i], g[i] = float64(i), float64(i%16)/4
		after[i] = initial[i] - g[i]
	}
	content, want := toBytes(element, initial), toBytes(element, after)
	first, err := newOptimizer(nil, element, content, nil)
	if err != nil {
		return err
	}
	defer first.cleanup()
	if !bytes.Equal(first.weights(), content) {
		return fmt.Errorf("the weights are not what arrived")
	}
	second, err := newOptimizer(nil, element, first.weights(), first.state())
	if err != nil {
		return err
	}
	defer second.cleanup()
	if !bytes.Equal(second.weights(), content) {
		return fmt.Errorf("the weights of a checkpoint are not what arrived")
	}
	for _, o := range []*optimizer{first, second} {
		if err := o.update(toBytes(element, g)); err != nil {
			return err
		}
		if !bytes.Equal(o.weights(), want) {
			return fmt.Errorf("a step is not one of SGD with a rate of 1")
		}
	}
	third, err := newOptimizer(nil, element, make([]byte, len(content)), second.state())
	if err != nil {
		return err
	}
	defer third.cleanup()
	if !bytes.Equal(third.weights(), want) || !bytes.Equal(third.state(), second.state()) {
		return fmt.Errorf("a state after a step is not restored")
	}
	return nil
}

func main() {
	for _, element := range []elementType{float32Type, float64Type} {
		if err := checkpoint(element); err != nil {
			fmt.Fprintf(os.Stderr, "a checkpoint without a configuration, %d bytes: %v\n", element.size(), err)
			os.Exit(1)
		}
	}
	for _, with := range rules {
		for _, policy := range policies {
			for _, element := range []elementType{float32Type, float64Type} {
				if err := run(with, policy, element); err != nil {
					fmt.Fprintf(os.Stderr, "%s, %s, %d bytes: %v\n", with.name, policy.name, element.size(), err)
					os.Exit(1)
				}
			}
		}
	}
	if _, err := newOptimizer([]byte("no message"), float32Type, make([]byte, 8), nil); err == nil {
		fmt.Fprintln(os.Stderr, "garbage was taken for a configuration")
		os.Exit(1)
	}
	fmt.Println("every optimizer, policy and element, stopped and restored")
}
