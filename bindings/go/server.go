package gradstep

// #include "serving.h"
import "C"

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"unsafe"
)

// Server is a parameter server: it stores dense parameters and tables, or its parts of them, and updates them by the gradients that
// workers push. Each push is applied exactly once, also after a restart of a server or a [Worker]:
//
//	server, err := gradstep.NewServer(config, transport.Rank(), transport.Ranks())
//	...
//	err = server.Checkpoint("server_0.safetensors", 10000)
//	err = server.Run(ctx, transport) // until every worker has stopped
//
// A Server is not safe for concurrent use. To publish numbers to other goroutines, read them in a function of AfterEvery.
// docs/how_to/go.md#servers-and-workers is the guide. A copy of a Server is the same server.
type Server struct{ *server }

type server struct {
	c           *C.gradstep_server // nil: closed
	rank, ranks int
	tasks       []func(*Server) error
	calls       int // of Begin, Handle and Run that have not returned
}

// Message is a message to another rank.
type Message struct {
	To    int
	Bytes []byte
}

// NewServer makes the server with this rank in a job of `ranks` servers and workers. config is one JSON for all servers of the job:
// each keeps its parts of the tensors. A tensor has the keys of an optimizer, and one of "parameter", "table" and "keyed_table":
//
//	{"mode": "asynchronous", "num_servers": 2, "tensors": {
//	    "wide": {"rule": {"name": "ftrl"}, "schedule": {"name": "constant", "rate": 0.1}, "keyed_table": {"width": 1}},
//	    "bias": {"rule": {"name": "adam"}, "schedule": {"name": "constant", "rate": 0.001}, "parameter": {"size": 10}}}}
//
// If it is invalid, the code of the error is BadConfig or NotCompiled.
func NewServer(config string, rank, ranks int) (*Server, error) {
	text, said := []byte(config+"\x00"), newError()
	s := &server{rank: rank, ranks: ranks}
	if status := C.gradstep_server_create((*C.char)(unsafe.Pointer(&text[0])), C.size_t(len(config)), rankInC(rank), rankInC(ranks),
		&s.c, &said); status != C.GRADSTEP_OK {
		return nil, errorOf(status, &said)
	}
	runtime.SetFinalizer(s, func(s *server) { s.Close() })
	return &Server{s}, nil
}

func (s *server) check() error {
	if s == nil {
		return notMade("server", "NewServer")
	}
	if s.c == nil {
		return closed("server")
	}
	return nil
}

func (s *server) handle() C.uintptr_t { return C.uintptr_t(uintptr(unsafe.Pointer(s.c))) }

// call runs f, which calls C with s.c, and converts its status to an error.
func (s *server) call(f func(*C.gradstep_error) C.gradstep_status) error {
	if err := s.check(); err != nil {
		return err
	}
	err := withScratch(func(own *scratch) C.gradstep_status { return f(&own.said) })
	runtime.KeepAlive(s)
	return err
}

// serve is the same for calls of C that can call the transport or a task.
func (s *server) serve(ctx context.Context, transport Transport, f func(C.uintptr_t, *scratch) C.gradstep_status) error {
	if err := s.check(); err != nil {
		return err
	}
	s.calls++
	defer func() { s.calls-- }() // this also keeps it alive
	return (&serving{ctx: ctx, transport: transport, server: s}).run(f)
}

// String describes the server: gradstep.Server{rank: 0 of 5, pushes: 10}. It also works after Close.
func (s Server) String() string {
	if s.server == nil {
		return "gradstep.Server{not made}"
	}
	text := fmt.Sprintf("gradstep.Server{rank: %d of %d, ", s.rank, s.ranks)
	info, err := s.Info()
	if err != nil {
		return text + "closed}"
	}
	return text + fmt.Sprintf("pushes: %d}", info.Pushes)
}

// MarshalJSON always returns an error. Use SaveFile to write a server.
func (s *server) MarshalJSON() ([]byte, error) { return nil, noJSON("server", "SaveFile") }

// Close releases the server with its tables and parameters. Later calls return an error of code BadHandle; a second Close does
// nothing. In a function of AfterEvery, Close returns an error of code BadSequence.
func (s *server) Close() error {
	if s == nil {
		return nil
	}
	if s.calls != 0 {
		return &Error{Code: BadSequence, Message: "Close: the server is at work; expected a call after it has returned"}
	}
	C.gradstep_server_release(s.c)
	s.c, s.tasks = nil, nil
	runtime.KeepAlive(s)
	return nil
}

// ServerInfo contains facts of a [Server].
type ServerInfo struct {
	Tensors   int     // parameters and tables of this server
	Pushes    int64   // gradients that it has applied since it was made
	Staleness float64 // the average number of steps of a tensor between the pull and the push of a worker
	Finished  bool    // every worker has stopped
}

// Info returns facts of the server.
func (s *server) Info() (ServerInfo, error) {
	info := C.gradstep_server_info{struct_size: C.sizeof_gradstep_server_info}
	err := s.call(func(said *C.gradstep_error) C.gradstep_status { return C.gradstep_server_describe(s.c, &info, said) })
	return ServerInfo{int(info.tensors), int64(info.pushes), float64(info.staleness), info.finished != 0}, err
}

// Run serves over the transport until every worker has stopped. If the context ends, or if the transport or a function of AfterEvery
// returns an error, all ranks get an error, and Run returns one in which errors.Is finds the cause. If a worker is silent for the
// transport's timeout, the code of the error is RankFailed.
func (s *server) Run(ctx context.Context, transport Transport) error {
	return s.serve(ctx, transport, func(call C.uintptr_t, own *scratch) C.gradstep_status {
		rank, ranks, timeout := transportOf(transport)
		return C.serving_run(call, s.handle(), rank, ranks, timeout, &own.said)
	})
}

// Begin returns the first messages of a server, for a program with its own loop instead of Run. Send them, and then those that Handle
// returns. Unlike Run, this loop does not detect silent workers, and does not tell the other ranks about errors.
func (s *server) Begin() ([]Message, error) {
	return s.messages(func(call C.uintptr_t, count *C.uint64_t, own *scratch) C.gradstep_status {
		return C.serving_begin(call, s.handle(), count, &own.said)
	})
}

// Handle handles a message of rank `from`, and returns the messages to send. An invalid message changes nothing: its sender gets an
// error. Handle returns the errors of functions of AfterEvery and of checkpoints.
func (s *server) Handle(from int, message []byte) ([]Message, error) {
	return s.messages(func(call C.uintptr_t, count *C.uint64_t, own *scratch) C.gradstep_status {
		return C.serving_handle(call, s.handle(), rankInC(from), (*C.uint8_t)(unsafe.Pointer(&orOne(message)[0])),
			C.uint64_t(len(message)), count, &own.said)
	})
}

// messages runs f, which makes messages in C, and returns copies of them.
func (s *server) messages(f func(C.uintptr_t, *C.uint64_t, *scratch) C.gradstep_status) ([]Message, error) {
	var count C.uint64_t
	if err := s.serve(context.Background(), nil, func(call C.uintptr_t, own *scratch) C.gradstep_status {
		return f(call, &count, own)
	}); err != nil {
		return nil, err
	}
	out := make([]Message, count)
	for i := range out {
		one := C.gradstep_message{struct_size: C.sizeof_gradstep_message}
		if err := s.call(func(said *C.gradstep_error) C.gradstep_status {
			return C.gradstep_server_message(s.c, C.uint64_t(i), &one, said)
		}); err != nil {
			return nil, err
		}
		out[i] = Message{int(one.to), copyOfBytes(one.bytes, one.size)}
	}
	return out, nil
}

// AfterEvery calls the function after every so many pushes, in Run and Handle: to evict rows, to send changes to replicas, or to
// publish metrics. Rows that workers have pulled and not pushed since are not evicted. The server answers no messages meanwhile. The
// function must not call Run, Handle or Close. If it returns an error or panics, Run or Handle ends with it.
func (s *server) AfterEvery(pushes int, task func(*Server) error) error {
	if pushes <= 0 {
		return &Error{Code: BadValue, Message: fmt.Sprintf("AfterEvery: %d pushes; expected a number > 0", pushes)}
	}
	if task == nil {
		return &Error{Code: NullArgument, Message: "AfterEvery: the function is nil; expected a function"}
	}
	err := s.call(func(said *C.gradstep_error) C.gradstep_status {
		return C.serving_after_every(s.handle(), C.uint64_t(pushes), C.uintptr_t(len(s.tasks)), said)
	})
	if err == nil {
		s.tasks = append(s.tasks, task)
	}
	return err
}

// Checkpoint continues from the file if it exists. It then writes the file after every so many pushes (0: never for their number), and
// when all workers have stopped. Each server needs its own file. Call it before Run or Begin.
func (s *server) Checkpoint(path string, pushes int) error {
	if pushes < 0 {
		return &Error{Code: BadValue, Message: fmt.Sprintf("Checkpoint: %d pushes; expected a number >= 0", pushes)}
	}
	return s.withPath(path, func(path *C.char, said *C.gradstep_error) C.gradstep_status {
		return C.gradstep_server_checkpoint(s.c, path, C.uint64_t(pushes), said)
	})
}

// SaveFile writes the server's tensors and the positions of all workers to a safetensors file.
func (s *server) SaveFile(path string) error {
	return s.withPath(path, func(path *C.char, said *C.gradstep_error) C.gradstep_status {
		return C.gradstep_server_save_file(s.c, path, said)
	})
}

// LoadFile continues from a file of SaveFile with the same tensors.
func (s *server) LoadFile(path string) error {
	return s.withPath(path, func(path *C.char, said *C.gradstep_error) C.gradstep_status {
		return C.gradstep_server_load_file(s.c, path, said)
	})
}

func (s *server) withPath(path string, f func(*C.char, *C.gradstep_error) C.gradstep_status) error {
	if err := checkText("the path", path); err != nil {
		return err
	}
	cPath := C.CString(path)
	defer C.free(unsafe.Pointer(cPath))
	return s.call(func(said *C.gradstep_error) C.gradstep_status { return f(cPath, said) })
}

// Reopen lets workers start again after all have stopped, to train on from a final checkpoint.
func (s *server) Reopen() error {
	return s.call(func(said *C.gradstep_error) C.gradstep_status { return C.gradstep_server_reopen(s.c, said) })
}

// TableOf returns a table of a server, to read it, or to set values before the first worker connects. It belongs to the server: it is
// valid until the server is closed, and its own Close does not release the rows. Use it between calls of Handle, or in a function of
// AfterEvery. If the server has no such table, the code of the error is BadValue.
func TableOf[T Element, I ID](of *Server, name string) (*Table[T, I], error) {
	t, err := tableOfServer[T, I](of, name, false)
	if err != nil {
		return nil, err
	}
	return &Table[T, I]{t}, nil
}

// KeyedTableOf is TableOf for a keyed table, also to evict rows and to send changes to replicas.
func KeyedTableOf[T Element](of *Server, name string) (*KeyedTable[T], error) {
	t, err := tableOfServer[T, uint64](of, name, true)
	if err != nil {
		return nil, err
	}
	return &KeyedTable[T]{t}, nil
}

func tableOfServer[T Element, I ID](of *Server, name string, keyed bool) (*table[T, I], error) {
	s, err := of.own()
	if err != nil {
		return nil, err
	}
	cName, err := cName(name)
	if err != nil {
		return nil, err
	}
	t := &table[T, I]{owner: s}
	if err := s.call(func(said *C.gradstep_error) C.gradstep_status {
		return C.gradstep_server_table(s.c, cName, &t.c, said)
	}); err != nil {
		return nil, err
	}
	if err := t.describeSelf(keyed); err != nil {
		return nil, err
	}
	return t, nil
}

// ParameterOf returns a dense parameter of a server, as TableOf does, and the number of its first element: a large parameter has a
// shard on every server.
func ParameterOf[T Element](of *Server, name string) (view *Parameter[T], first int, err error) {
	s, err := of.own()
	if err != nil {
		return nil, 0, err
	}
	cName, err := cName(name)
	if err != nil {
		return nil, 0, err
	}
	var element T
	p := &parameter{rows: 1, bytes: int(unsafe.Sizeof(element)), said: newError(), owner: s}
	var begin C.uint64_t
	if err := s.call(func(said *C.gradstep_error) C.gradstep_status {
		return C.gradstep_server_parameter(s.c, cName, &p.c, &begin, said)
	}); err != nil {
		return nil, 0, err
	}
	var dtype C.int32_t
	if err := p.call(func() C.gradstep_status { return C.gradstep_parameter_dtype(p.c, &dtype, &p.said) }); err != nil {
		return nil, 0, err
	}
	if dtype != dtypeOf[T]() {
		return nil, 0, &Error{Code: BadConfig, Message: fmt.Sprintf("%s: the values are a %T; expected %q, the type of a Parameter[%s]", name,
			valuesOf(dtype, 0, nil), strings.ToLower(nameOfElement[T]()), nameOfElement[T]())}
	}
	if p.config, err = p.Config(); err != nil {
		return nil, 0, err
	}
	_, count, err := p.memory()
	if err != nil {
		return nil, 0, err
	}
	p.width = int(count)
	runtime.SetFinalizer(p, func(p *parameter) { p.Close() })
	return &Parameter[T]{p}, int(begin), nil
}

// own returns the part that copies share, or an error if the server is not usable.
func (s *Server) own() (*server, error) {
	if s == nil {
		return nil, notMade("server", "NewServer")
	}
	return s.server, s.server.check()
}
