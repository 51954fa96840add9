package gradstep

// #include "serving.h"
import "C"

import (
	"context"
	"fmt"
	"math"
	"runtime/cgo"
	"strings"
	"time"
	"unsafe"
)

// Transport carries the messages between the ranks of a job with parameter servers. Several goroutines can call its methods at the
// same time. docs/how_to/go.md#servers-and-workers has one by channels, and examples/go_parameter_server one over TCP.
//
// If a method returns an error, so does the call of the [Server] or [Worker] that needed it: errors.Is and errors.As find the error of
// the transport in it. If a method panics, that call panics with the same value. The methods must not call runtime.Goexit.
type Transport interface {
	Rank() int              // this rank, from 0; the first ranks are servers, and the others workers
	Ranks() int             // the number of servers and workers together
	Timeout() time.Duration // how long to wait for another rank, before an error of code RankFailed
	// Send queues a message, which then belongs to the transport, and returns without waiting for the receiver. Messages between
	// two ranks keep their order. A rank can send to itself, as every worker does.
	Send(to int, message []byte) error
	// Receive returns the next message of any rank. If none arrives in this time, the message is nil. With 0 it does not wait. Its
	// memory can be used again in the next call of Receive.
	Receive(wait time.Duration) (from int, message []byte, err error)
}

// longestWait is how long Receive waits at most if a context can end the call.
const longestWait = 20 * time.Millisecond

// serving is a call of C during which C calls the transport and tasks.
type serving struct {
	ctx       context.Context
	transport Transport
	server    *server
	failed    error  // what the transport, a task or the context returned
	panicked  string // where: a panic must not unwind C++, so C returns first
	cause     any
}

// run runs f, which calls C with a handle of this call, and converts its status to an error.
func (c *serving) run(f func(C.uintptr_t, *scratch) C.gradstep_status) error {
	if err := c.ctx.Err(); err != nil {
		return ended("the context", RankFailed, err)
	}
	handle := cgo.NewHandle(c)
	defer handle.Delete()
	err := withScratch(func(s *scratch) C.gradstep_status { return f(C.uintptr_t(handle), s) })
	if c.panicked != "" {
		panic(c.cause)
	}
	if err != nil && c.failed != nil {
		return c.failed
	}
	return err
}

// ended returns the error of a call that ended because of `cause`, an error from outside of this package.
func ended(where string, code Code, cause error) error {
	return &Error{Code: code, Message: where + ": " + cause.Error(), cause: cause}
}

// guard runs f, a function of the user's, and returns what C gets: 0 if it has succeeded.
func (c *serving) guard(where string, code Code, f func() error) (out C.int32_t) {
	const send = "transport.Send"
	if c.panicked != "" && (where != send || c.panicked == send) { // a server still tells the other ranks why it fails
		return -1
	}
	before, done := c.panicked, false
	defer func() {
		if done {
			return
		}
		if cause := recover(); before == "" {
			c.panicked, c.cause = where, cause
		}
		out = -1
	}()
	err := f()
	done = true
	if err == nil {
		return 0
	}
	if c.failed == nil {
		c.failed = ended(where, code, err)
	}
	return -1
}

// The functions that C calls. They are in a file of its own, because the C code of a file with an exported function must not define
// functions.

//export gradstepSend
func gradstepSend(call C.uintptr_t, to C.int32_t, bytes unsafe.Pointer, size C.uint64_t) C.int32_t {
	c := cgo.Handle(call).Value().(*serving)
	return c.guard("transport.Send", RankFailed, func() error {
		return c.transport.Send(int(to), copyOfBytes(bytes, size))
	})
}

//export gradstepReceive
func gradstepReceive(call C.uintptr_t, milliseconds C.int64_t, in *C.gradstep_inbox) C.int32_t {
	c := cgo.Handle(call).Value().(*serving)
	wait := time.Duration(milliseconds) * time.Millisecond
	if c.ctx.Done() == nil || wait <= longestWait {
		_, out := c.receive(wait, in)
		return out
	}
	for until := time.Now().Add(wait); wait > 0; wait = time.Until(until) {
		if wait > longestWait {
			wait = longestWait
		}
		if got, out := c.receive(wait, in); got || out != 0 {
			return out
		}
	}
	return 0
}

// receive passes a message that arrives in this time to C. It reports whether there is one, and returns what C gets.
func (c *serving) receive(wait time.Duration, in *C.gradstep_inbox) (got bool, out C.int32_t) {
	out = c.guard("the context", RankFailed, c.ctx.Err)
	if out != 0 {
		return false, out
	}
	out = c.guard("transport.Receive", RankFailed, func() error {
		from, message, err := c.transport.Receive(wait)
		if err != nil || message == nil {
			return err
		}
		to := C.gradstep_inbox_allocate(in, rankInC(from), C.uint64_t(len(message)))
		if to == nil {
			return fmt.Errorf("there is no memory for a message of %d bytes", len(message))
		}
		copy(unsafe.Slice((*byte)(to), len(message)), message)
		got = true
		return nil
	})
	return got, out
}

//export gradstepTask
func gradstepTask(call, task C.uintptr_t, reason *C.gradstep_error) C.int32_t {
	c := cgo.Handle(call).Value().(*serving)
	say := func(text string) { // to the other ranks
		if most := len(reason.message) - 1; len(text) > most {
			text = text[:most]
		}
		for i, each := range []byte(strings.ToValidUTF8(text, "")) {
			reason.message[i] = C.char(each)
		}
	}
	out := c.guard("task", BadValue, func() error {
		err := c.server.tasks[task](&Server{c.server})
		if err != nil {
			say(err.Error())
		}
		return err
	})
	if out != 0 && c.panicked == "task" {
		say(fmt.Sprintf("a panic: %v", c.cause))
	}
	return out
}

// copyOfBytes copies memory of C.
func copyOfBytes(from unsafe.Pointer, size C.uint64_t) []byte {
	return append([]byte{}, unsafe.Slice((*byte)(from), size)...)
}

// cName returns the text of a C string. Go's memory lasts during a call of C.
func cName(name string) (*C.char, error) {
	if err := checkText("the name", name); err != nil {
		return nil, err
	}
	return (*C.char)(unsafe.Pointer(&[]byte(name + "\x00")[0])), nil
}

// transportOf returns what C gets of a transport.
func transportOf(t Transport) (rank, ranks C.int32_t, timeout C.int64_t) {
	if t == nil {
		return -1, 0, 1 // which C refuses
	}
	wait := t.Timeout()
	if timeout = C.int64_t(wait.Milliseconds()); wait > 0 && timeout == 0 {
		timeout = 1
	}
	return rankInC(t.Rank()), rankInC(t.Ranks()), timeout
}

// rankInC returns a number that no job has for one that C cannot have.
func rankInC(n int) C.int32_t {
	if n != int(C.int32_t(n)) {
		return math.MaxInt32
	}
	return C.int32_t(n)
}
