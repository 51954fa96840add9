package gradstep

// #include "serving.h"
import "C"

import (
	"context"
	"fmt"
	"runtime"
	"unsafe"
)

// Worker is a worker of a job with parameter servers. It pulls weights and pushes gradients:
//
//	worker, err := gradstep.NewWorker(ctx, transport, gradstep.WorkerOptions{NumServers: 2})
//	...
//	err = gradstep.PullRows(ctx, worker, "wide", keys, weights)
//	err = gradstep.PushRows(ctx, worker, "wide", keys, gradients) // returns before the step
//	err = worker.Stop(ctx)
//
// Several goroutines can use a worker at the same time. If the context of a call ends while the call waits, it returns an error in which
// errors.Is finds the error of the context; you can call it again. If another goroutine waits in the worker, too, it can take until that
// one has its answer. A copy of a Worker is the same worker.
type Worker struct{ *worker }

type worker struct {
	c           *C.gradstep_worker // nil: closed
	transport   Transport
	rank, ranks int
}

// WorkerOptions are the options of a [Worker]. Zeros are the defaults.
type WorkerOptions struct {
	NumServers    int    // as "num_servers" of the servers; default 1
	MaxInFlight   int    // pushes that a server has not applied yet: the next push waits; default 16
	MaxKept       int    // pushes to a server that no checkpoint contains yet: the next one waits; default 1024
	CheckElements bool   // checksums also cover the weights, for transports that can damage data
	Job           uint32 // as "job" of the servers
}

// NewWorker connects to all servers, and waits for them. The transport must work until Close.
func NewWorker(ctx context.Context, transport Transport, options WorkerOptions) (*Worker, error) {
	given := C.gradstep_worker_options{struct_size: C.sizeof_gradstep_worker_options, num_servers: 1, max_in_flight: 16, max_kept: 1024,
		check_elements: toggle(options.CheckElements, 1), job: C.uint32_t(options.Job)}
	if options.NumServers < 0 || options.MaxInFlight < 0 || options.MaxKept < 0 {
		return nil, &Error{Code: BadValue, Message: fmt.Sprintf("WorkerOptions: NumServers %d, MaxInFlight %d, MaxKept %d; expected numbers >= 0",
			options.NumServers, options.MaxInFlight, options.MaxKept)}
	}
	if options.NumServers != 0 {
		given.num_servers = rankInC(options.NumServers)
	}
	if options.MaxInFlight != 0 {
		given.max_in_flight = C.uint64_t(options.MaxInFlight)
	}
	if options.MaxKept != 0 {
		given.max_kept = C.uint64_t(options.MaxKept)
	}
	rank, ranks, timeout := transportOf(transport)
	w := &worker{transport: transport, rank: int(rank), ranks: int(ranks)}
	if err := (&serving{ctx: ctx, transport: transport}).run(func(call C.uintptr_t, own *scratch) C.gradstep_status {
		return C.working_create(call, rank, ranks, timeout, &given, &w.c, &own.said)
	}); err != nil {
		return nil, err
	}
	runtime.SetFinalizer(w, func(w *worker) { w.Close() })
	return &Worker{w}, nil
}

func (w *worker) check() error {
	if w == nil {
		return notMade("worker", "NewWorker")
	}
	if w.c == nil {
		return closed("worker")
	}
	return nil
}

func (w *worker) handle() C.uintptr_t { return C.uintptr_t(uintptr(unsafe.Pointer(w.c))) }

// call runs f, which calls C with w.c, and converts its status to an error.
func (w *worker) call(f func(*scratch) C.gradstep_status) error {
	if err := w.check(); err != nil {
		return err
	}
	err := withScratch(f)
	runtime.KeepAlive(w)
	return err
}

// work is the same for calls that use the transport.
func (w *worker) work(ctx context.Context, f func(C.uintptr_t, *scratch) C.gradstep_status) error {
	if err := w.check(); err != nil {
		return err
	}
	err := (&serving{ctx: ctx, transport: w.transport}).run(f)
	runtime.KeepAlive(w)
	return err
}

// about is the same for calls about a tensor.
func (w *Worker) about(ctx context.Context, name string, f func(C.uintptr_t, *C.char, *scratch) C.gradstep_status) error {
	if w == nil {
		return notMade("worker", "NewWorker")
	}
	text, err := cName(name)
	if err != nil {
		return err
	}
	return w.work(ctx, func(call C.uintptr_t, own *scratch) C.gradstep_status { return f(call, text, own) })
}

// String describes the worker: gradstep.Worker{rank: 2 of 5}. It also works after Close.
func (w Worker) String() string {
	if w.worker == nil {
		return "gradstep.Worker{not made}"
	}
	text := fmt.Sprintf("gradstep.Worker{rank: %d of %d", w.rank, w.ranks)
	if w.c == nil {
		text += ", closed"
	}
	return text + "}"
}

// MarshalJSON always returns an error. The servers save what a worker has pushed.
func (w *worker) MarshalJSON() ([]byte, error) {
	return nil, noJSON("worker", "SaveFile of the servers")
}

// Close releases the worker, which does not stop it: call Stop before. Later calls return an error of code BadHandle; a second Close
// does nothing. No goroutine may use the worker or a [Geo] of it during Close.
func (w *worker) Close() error {
	if w == nil {
		return nil
	}
	C.gradstep_worker_release(w.c)
	w.c = nil
	runtime.KeepAlive(w)
	return nil
}

// WorkerInfo contains facts of a [Worker]. A position is a number of pushes and barriers.
type WorkerInfo struct {
	Workers  int   // of the job
	Position int64 // of this worker; of a new one: what all servers have saved
	Applied  int64 // the position up to which all servers have applied the pushes of this worker
	Durable  int64 // the position up to which the checkpoints of all servers contain them
	Stopped  bool  // a server knows that this worker has stopped; you can only call Stop
}

// Info returns facts of the worker.
func (w *worker) Info() (WorkerInfo, error) {
	info := C.gradstep_worker_info{struct_size: C.sizeof_gradstep_worker_info}
	err := w.call(func(s *scratch) C.gradstep_status { return C.gradstep_worker_describe(w.c, &info, &s.said) })
	return WorkerInfo{int(info.workers), int64(info.position), int64(info.applied), int64(info.durable), info.stopped != 0}, err
}

// Size returns the number of elements of a dense parameter.
func (w *worker) Size(name string) (int, error) {
	text, err := cName(name)
	if err != nil {
		return 0, err
	}
	var count C.uint64_t
	err = w.call(func(s *scratch) C.gradstep_status { return C.gradstep_worker_size(w.c, text, &count, &s.said) })
	return int(count), err
}

// Pull copies a dense parameter to out.
func Pull[T Element](ctx context.Context, by *Worker, name string, out []T) error {
	return by.about(ctx, name, func(call C.uintptr_t, text *C.char, s *scratch) C.gradstep_status {
		return C.working_pull(call, by.handle(), text, dtypeOf[T](), bytesAt(out), C.uint64_t(len(out)), &s.said)
	})
}

// PullRows copies the rows in ids to out, in this order: len(ids) * width elements. The keys of a keyed table are uint64.
func PullRows[T Element, I ID](ctx context.Context, by *Worker, name string, ids []I, out []T) error {
	return by.about(ctx, name, func(call C.uintptr_t, text *C.char, s *scratch) C.gradstep_status {
		return C.working_pull_rows(call, by.handle(), text, bytesAt(ids), dtypeOf[I](), C.uint64_t(len(ids)), dtypeOf[T](), bytesAt(out),
			C.uint64_t(len(out)), &s.said)
	})
}

// Push sends the gradient of a dense parameter. It returns before the step, and waits only if MaxInFlight earlier pushes are not applied.
// You must pull a tensor before you push to it (BadSequence). If a server rejects a push, later calls return its error.
func Push[T Element](ctx context.Context, by *Worker, name string, gradient []T) error {
	return by.about(ctx, name, func(call C.uintptr_t, text *C.char, s *scratch) C.gradstep_status {
		return C.working_push(call, by.handle(), text, dtypeOf[T](), bytesAt(gradient), C.uint64_t(len(gradient)), &s.said)
	})
}

// PushRows sends the gradients of the rows in ids: len(ids) * width elements. "duplicates" of the table decides about an id that appears
// several times. Otherwise it works as Push.
func PushRows[T Element, I ID](ctx context.Context, by *Worker, name string, ids []I, gradients []T) error {
	return by.about(ctx, name, func(call C.uintptr_t, text *C.char, s *scratch) C.gradstep_status {
		return C.working_push_rows(call, by.handle(), text, bytesAt(ids), dtypeOf[I](), C.uint64_t(len(ids)), dtypeOf[T](),
			bytesAt(gradients), C.uint64_t(len(gradients)), &s.said)
	})
}

// Barrier waits until every worker that has not stopped has called it equally often, and all their earlier pushes are applied.
func (w *worker) Barrier(ctx context.Context) error {
	return w.work(ctx, func(call C.uintptr_t, s *scratch) C.gradstep_status {
		return C.working_barrier(call, w.handle(), &s.said)
	})
}

// GoOnFrom sets a smaller position before the first push: where the interrupted step began. Servers ignore pushes that they have
// applied.
func (w *worker) GoOnFrom(position int64) error {
	if position < 0 {
		return &Error{Code: BadValue, Message: fmt.Sprintf("GoOnFrom: position %d; expected a number >= 0", position)}
	}
	return w.call(func(s *scratch) C.gradstep_status {
		return C.gradstep_worker_go_on_from(w.c, C.uint64_t(position), &s.said)
	})
}

// Stop is the last call of a worker. It waits until all its pushes are applied and saved, and all workers have called Stop.
func (w *worker) Stop(ctx context.Context) error {
	return w.work(ctx, func(call C.uintptr_t, s *scratch) C.gradstep_status { return C.working_stop(call, w.handle(), &s.said) })
}

// Geo exchanges the changes of a parameter, which this worker trains by itself, with the servers: Geo-SGD. A copy of a Geo is the same.
type Geo struct{ *geo }

type geo struct {
	c     *C.gradstep_geo // nil: closed
	by    *worker
	local *parameter
}

// NewGeo sets the parameter to the servers' weights of this name, whose rule must be "add_delta" with a rate of 1. Then train it with
// Update, and call Exchange every few steps.
func NewGeo(ctx context.Context, by *Worker, name string, local AnyParameter) (*Geo, error) {
	p := baseOf(local)
	if err := p.check(); err != nil {
		return nil, err
	}
	g := &geo{local: p}
	if err := by.about(ctx, name, func(call C.uintptr_t, text *C.char, s *scratch) C.gradstep_status {
		return C.working_geo(call, by.handle(), text, p.handle(), &g.c, &s.said)
	}); err != nil {
		return nil, err
	}
	g.by = by.worker
	runtime.SetFinalizer(g, func(g *geo) { g.Close() })
	runtime.KeepAlive(p)
	return &Geo{g}, nil
}

// Exchange sends the change since the last exchange, divided by the number of workers, and takes over what the other workers have sent.
// Call it once more before Stop.
func (g *geo) Exchange(ctx context.Context) error {
	if g == nil {
		return notMade("geo", "NewGeo")
	}
	if g.c == nil {
		return closed("geo")
	}
	if err := g.local.check(); err != nil {
		return err
	}
	err := g.by.work(ctx, func(call C.uintptr_t, s *scratch) C.gradstep_status {
		return C.working_exchange(call, C.uintptr_t(uintptr(unsafe.Pointer(g.c))), &s.said)
	})
	runtime.KeepAlive(g)
	return err
}

// Close releases the exchange; the parameter and the worker stay. A second Close does nothing.
func (g *geo) Close() error {
	if g == nil {
		return nil
	}
	C.gradstep_geo_release(g.c)
	g.c = nil
	runtime.KeepAlive(g)
	return nil
}
