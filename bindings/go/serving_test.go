package gradstep

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// channels is a transport by channels, between the goroutines of a test.
type channels struct {
	rank    int
	inboxes []chan arrived
	timeout time.Duration
	send    func(to int) error // before each Send; nil: nothing
	receive func() error       // before each Receive
}

type arrived struct {
	from    int
	message []byte
}

func newChannels(ranks int, timeout time.Duration) []*channels {
	inboxes, out := make([]chan arrived, ranks), make([]*channels, ranks)
	for rank := range out {
		inboxes[rank] = make(chan arrived, 10000)
		out[rank] = &channels{rank: rank, inboxes: inboxes, timeout: timeout}
	}
	return out
}

func (c *channels) Rank() int              { return c.rank }
func (c *channels) Ranks() int             { return len(c.inboxes) }
func (c *channels) Timeout() time.Duration { return c.timeout }

func (c *channels) Send(to int, message []byte) error {
	if c.send != nil {
		if err := c.send(to); err != nil {
			return err
		}
	}
	c.inboxes[to] <- arrived{c.rank, message}
	return nil
}

func (c *channels) Receive(wait time.Duration) (int, []byte, error) {
	if c.receive != nil {
		if err := c.receive(); err != nil {
			return 0, nil, err
		}
	}
	select {
	case got := <-c.inboxes[c.rank]:
		return got.from, got.message, nil
	default:
	}
	select {
	case got := <-c.inboxes[c.rank]:
		return got.from, got.message, nil
	case <-time.After(wait):
		return 0, nil, nil
	}
}

const servedModel = `{"num_servers": %d, "mode": %q, "split_from": 8, "tensors": {
	"wide": {"rule": {"name": "ftrl", "l1": 0.001}, "schedule": {"name": "constant", "rate": 0.1}, "keyed_table": {"width": 1}},
	"rows": {"rule": {"name": "sgd"}, "schedule": {"name": "constant", "rate": 1}, "table": {"rows": 10, "width": 2}},
	"bias": {"rule": {"name": "sgd"}, "schedule": {"name": "constant", "rate": 1}, "type": "float64", "parameter": {"size": 3}},
	"deep": {"rule": {"name": "sgd"}, "schedule": {"name": "constant", "rate": 1}, "parameter": {"size": 10000, "initial": 0.5}}}}`

func servedBy(t testing.TB, servers int, mode string, rank, ranks int) *Server {
	t.Helper()
	return must[*Server](t)(NewServer(fmt.Sprintf(servedModel, servers, mode), rank, ranks))
}

// together runs a goroutine for each rank, and returns their errors.
func together(ranks int, run func(rank int) error) []error {
	out := make([]error, ranks)
	var all sync.WaitGroup
	for rank := 0; rank < ranks; rank++ {
		all.Add(1)
		go func(rank int) {
			defer all.Done()
			out[rank] = run(rank)
		}(rank)
	}
	all.Wait()
	return out
}

// succeed is together for ranks that must all succeed.
func succeed(t *testing.T, ranks int, run func(rank int) error) {
	t.Helper()
	for rank, err := range together(ranks, run) {
		if err != nil {
			t.Errorf("rank %d: %v", rank, err)
		}
	}
}

// count pushes -1 to each tensor, so many times from its position on, and stops.
func count(ctx context.Context, worker *Worker, steps int64) error {
	wide, deep, bias, rows := make([]float32, 2), make([]float32, 10000), make([]float64, 3), make([]float32, 4)
	info, err := worker.Info()
	if err != nil {
		return err
	}
	if info.Stopped {
		return worker.Stop(ctx)
	}
	const pushes = 4 // a step
	step := info.Position / pushes
	if err := worker.GoOnFrom(step * pushes); err != nil {
		return err
	}
	for ; step < steps; step++ {
		keys, ids := []uint64{1 << 63, uint64(step)}, []int64{3, step % 10}
		for _, call := range []func() error{
			func() error { return PullRows(ctx, worker, "wide", keys, wide) },
			func() error { return PushRows(ctx, worker, "wide", keys, []float32{1, -1}) },
			func() error { return Pull(ctx, worker, "deep", deep) },
			func() error { return Push(ctx, worker, "deep", ofEach(deep, -1)) },
			func() error { return Pull(ctx, worker, "bias", bias) },
			func() error { return Push(ctx, worker, "bias", ofEach(bias, -1)) },
			func() error { return PullRows(ctx, worker, "rows", ids, rows) },
			func() error { return PushRows(ctx, worker, "rows", ids, ofEach(rows, -1)) },
		} {
			if err := call(); err != nil {
				return err
			}
		}
	}
	return worker.Stop(ctx)
}

func ofEach[T float32 | float64](like []T, x T) []T {
	out := make([]T, len(like))
	for i := range out {
		out[i] = x
	}
	return out
}

// A server and three workers count their pushes, in each mode.
func TestServers(t *testing.T) {
	const workers, steps = 3, 20
	for _, mode := range []string{"asynchronous", "synchronous"} {
		for servers := 1; servers <= 2; servers++ {
			t.Run(fmt.Sprint(mode, servers), func(t *testing.T) {
				by := newChannels(servers+workers, 20*time.Second)
				var of [2]*Server
				succeed(t, servers+workers, func(rank int) error {
					if rank < servers {
						of[rank] = servedBy(t, servers, mode, rank, servers+workers)
						return of[rank].Run(context.Background(), by[rank])
					}
					worker, err := NewWorker(context.Background(), by[rank], WorkerOptions{NumServers: servers, MaxInFlight: 3, MaxKept: 100})
					if err != nil {
						return err
					}
					defer worker.Close()
					if size, err := worker.Size("deep"); size != 10000 || err != nil {
						return fmt.Errorf("the size is %d: %w", size, err)
					}
					return count(context.Background(), worker, steps)
				})
				seen, elements, applied := 0, 0, steps*workers
				if mode == "synchronous" {
					applied = steps // each with the mean of all gradients
				}
				for rank, server := range of[:servers] {
					info := must[ServerInfo](t)(server.Info())
					if !info.Finished || info.Tensors < 3 || info.Pushes == 0 {
						t.Errorf("server %d: %+v", rank, info)
					}
					deep, first, err := ParameterOf[float32](server, "deep") // a shard
					check(t, err)
					equal(t, first, elements)
					shard := must[[]float32](t)(deep.Values())
					elements += len(shard)
					for _, x := range shard {
						if x != 0.5+float32(applied) {
							t.Fatalf("got %v after %d steps", x, applied)
						}
					}
					// A small parameter is on the server that the hash of its name selects.
					if bias, _, err := ParameterOf[float64](server, "bias"); err == nil {
						equal(t, must[[]float64](t)(bias.Values()), ofEach(make([]float64, 3), float64(applied)))
						seen++
					}
					wide := must[*KeyedTable[float32]](t)(KeyedTableOf[float32](server, "wide"))
					if now := must[Clock](t)(wide.Clock()); now.Step != int64(applied) {
						t.Errorf("server %d: %+v", rank, now)
					}
				}
				equal(t, []int{seen, elements}, []int{1, 10000})
			})
		}
	}
}

// The tables and parameters of a server are views.
func TestViewsOfServers(t *testing.T) {
	server := servedBy(t, 1, "asynchronous", 0, 2)
	rows := must[*Table[float32, int64]](t)(TableOf[float32, int64](server, "rows"))
	check(t, rows.SetRows([]int64{4}, []float32{7, 8}))
	again := must[*Table[float32, int64]](t)(TableOf[float32, int64](server, "rows"))
	equal(t, must[[]float32](t)(again.Row(4)), []float32{7, 8})
	check(t, again.Close()) // not its rows
	equal(t, must[[]float32](t)(rows.Row(4)), []float32{7, 8})
	equal(t, rows.String(), "gradstep.Table[float32, int64]{rule: sgd, rows: 10, width: 2}")
	deep, _, err := ParameterOf[float32](server, "deep")
	check(t, err)
	equal(t, deep.String(), "gradstep.Parameter[float32]{rule: sgd, rows: 1, width: 10000}")
	check(t, deep.SetValues(make([]float32, 10000)))
	deep.Gradient()[3] = 1
	batch := must[*Batch](t)(NewBatch(deep))
	refused(t, batch.Update(), BadValue) // the server steps it
	equal(t, must[[]float32](t)(deep.Values())[3], float32(0))
	for _, failed := range []error{
		errorIn(TableOf[float32, int64](server, "none")), errorIn(TableOf[float32, int64](server, "deep")),
		errorIn(KeyedTableOf[float32](server, "deep")), thirdOf(ParameterOf[float32](server, "rows")),
	} {
		refused(t, failed, BadValue)
	}
	for _, failed := range []error{
		errorIn(TableOf[float64, int64](server, "rows")), errorIn(KeyedTableOf[float32](server, "rows")),
		errorIn(TableOf[float32, uint64](server, "wide")), thirdOf(ParameterOf[float64](server, "deep")),
		thirdOf(ParameterOf[float32](server, "bias")),
	} {
		refused(t, failed, BadConfig)
	}
	if err := errorIn(json.Marshal(server)); !errors.Is(err, &Error{Code: BadValue}) {
		t.Error(err)
	}
	equal(t, server.String(), "gradstep.Server{rank: 0 of 2, pushes: 0}")
	runtime.GC() // of the view `again`
	check(t, server.Close())
	check(t, server.Close())
	equal(t, server.String(), "gradstep.Server{rank: 0 of 2, closed}")
	for _, failed := range []error{errorIn(rows.Row(4)), deep.Update(make([]float32, 10000)), batch.Update(), rows.SaveFile("none"),
		SaveFile("none", map[string]AnyParameter{"deep": deep}), errorIn(server.Info()), errorIn(TableOf[float32, int64](server, "rows")),
		server.Run(context.Background(), newChannels(2, time.Second)[0])} {
		refused(t, failed, BadHandle)
	}
	equal(t, deep.Gradient()[3], float32(1)) // memory of the view's own
	check(t, deep.Close())
}

func thirdOf[A, B any](_ A, _ B, err error) error { return err }

func refused(t testing.TB, err error, code Code) {
	t.Helper()
	if !errors.Is(err, &Error{Code: code}) {
		t.Errorf("got %v, want an error of code %v", err, code)
	}
}

// A server that ends at a random moment goes on from its checkpoint; so does a worker. Every push counts once.
func TestServersAndWorkersRestart(t *testing.T) {
	const workers, steps = 3, 60
	died := errors.New("died")
	file := filepath.Join(t.TempDir(), "server.safetensors")
	by := newChannels(1+workers, time.Minute)
	// dying lets a rank die in its messages, three times, and begin anew.
	dying := func(rank int, run func() error) error {
		lives, left := 3, 30+rank
		fail := func() error {
			if left--; lives > 0 && left <= 0 {
				return died
			}
			return nil
		}
		by[rank].receive = fail
		for {
			err := run()
			if err == nil || !errors.Is(err, died) {
				return err
			}
			lives--
			left = 40 + 10*rank
		}
	}
	var pushes int64
	succeed(t, 1+workers, func(rank int) error {
		return dying(rank, func() error {
			if rank > 0 {
				worker, err := NewWorker(context.Background(), by[rank], WorkerOptions{})
				if err != nil {
					return err
				}
				defer worker.Close()
				return count(context.Background(), worker, steps)
			}
			// Handle, since Run would tell the workers that it dies.
			server := servedBy(t, 1, "asynchronous", 0, 1+workers)
			defer server.Close()
			if err := server.Checkpoint(file, 25); err != nil {
				return err
			}
			messages, err := server.Begin()
			for err == nil {
				for _, each := range messages {
					by[0].Send(each.To, each.Bytes)
				}
				info, infoErr := server.Info()
				if infoErr != nil || info.Finished {
					bias, _, err := ParameterOf[float64](server, "bias")
					if err != nil {
						return err
					}
					return bias.Read(func(values []float64) { pushes = int64(values[0]) })
				}
				var from int
				var message []byte
				if from, message, err = by[0].Receive(time.Minute); err == nil {
					messages, err = server.Handle(from, message)
				}
			}
			return err
		})
	})
	equal(t, pushes, int64(workers*steps))
	// A job that has finished stays finished, until it is opened again.
	again := servedBy(t, 1, "asynchronous", 0, 1+workers)
	check(t, again.Checkpoint(file, 0))
	equal(t, must[ServerInfo](t)(again.Info()).Finished, true)
	check(t, again.Reopen())
	equal(t, must[ServerInfo](t)(again.Info()).Finished, false)
	copied := servedBy(t, 1, "asynchronous", 0, 1+workers)
	check(t, again.SaveFile(file+".2"))
	check(t, copied.LoadFile(file+".2"))
	bias, _, err := ParameterOf[float64](copied, "bias")
	check(t, err)
	equal(t, must[[]float64](t)(bias.Values())[1], float64(workers*steps))
	refused(t, copied.LoadFile("missing"), IOError)
}

type failure struct{ why string }

func (f *failure) Error() string { return f.why }

// The error of a transport or of a task comes back as itself, and the other ranks get an error.
func TestErrorsOfServers(t *testing.T) {
	own := &failure{"no network"}
	for _, where := range []string{"transport.Send", "transport.Receive", "task"} {
		by := newChannels(2, time.Minute)
		calls := 0
		fail := func() error {
			if calls++; calls == 10 {
				return own
			}
			return nil
		}
		server := servedBy(t, 1, "asynchronous", 0, 2)
		switch where {
		case "task":
			check(t, server.AfterEvery(3, func(*Server) error { return own }))
		case "transport.Send":
			by[0].send = func(int) error { return fail() }
		case "transport.Receive":
			by[0].receive = fail
		}
		got := together(2, func(rank int) error {
			if rank == 0 {
				return server.Run(context.Background(), by[0])
			}
			worker, err := NewWorker(context.Background(), by[1], WorkerOptions{})
			if err != nil {
				return err
			}
			return count(context.Background(), worker, 100)
		})
		var found *failure
		if !errors.As(got[0], &found) || found != own || got[0].Error() != where+": no network" {
			t.Errorf("%s: %v", where, got[0])
		}
		if where == "task" {
			refused(t, got[0], BadValue)
		} else {
			refused(t, got[0], RankFailed)
		}
		if got[1] == nil || errors.Is(got[1], own) {
			t.Errorf("%s: %v", where, got[1])
		}
		if where == "task" && !strings.Contains(got[1].Error(), "task: no network") {
			t.Errorf("the worker got: %v", got[1])
		}
		check(t, server.Close())
	}
}

// The same in a loop of one's own, which does not tell the other ranks.
func TestErrorsOfTasksInHandle(t *testing.T) {
	own := &failure{"the disk is full"}
	by := newChannels(2, 300*time.Millisecond)
	server := servedBy(t, 1, "asynchronous", 0, 2)
	check(t, server.AfterEvery(3, func(*Server) error { return own }))
	got := together(2, func(rank int) error {
		if rank == 1 {
			worker, err := NewWorker(context.Background(), by[1], WorkerOptions{})
			if err != nil {
				return err
			}
			return count(context.Background(), worker, 100)
		}
		messages, err := server.Begin()
		for err == nil {
			for _, each := range messages {
				by[0].Send(each.To, each.Bytes)
			}
			var from int
			var message []byte
			if from, message, err = by[0].Receive(time.Minute); err == nil {
				messages, err = server.Handle(from, message)
			}
		}
		return err
	})
	if !errors.Is(got[0], own) || got[0].Error() != "task: the disk is full" {
		t.Errorf("%v", got[0])
	}
	refused(t, got[1], RankFailed)
}

// A panic of a transport or of a task passes through, and the library stays usable.
func TestPanicsOfServers(t *testing.T) {
	for _, where := range []string{"send", "receive", "task"} {
		by := newChannels(2, 300*time.Millisecond)
		server := servedBy(t, 1, "asynchronous", 0, 2)
		switch where {
		case "task":
			check(t, server.AfterEvery(1, func(*Server) error { panic("mine") }))
		case "send":
			by[0].send = func(int) error { panic("mine") }
		case "receive":
			by[0].receive = func() error { panic("mine") }
		}
		var cause any
		got := together(2, func(rank int) error {
			if rank == 0 {
				defer func() { cause = recover() }()
				return server.Run(context.Background(), by[0])
			}
			worker, err := NewWorker(context.Background(), by[1], WorkerOptions{})
			if err != nil {
				return err
			}
			return count(context.Background(), worker, 2)
		})
		equal(t, cause, any("mine"))
		refused(t, got[1], RankFailed)
		if where == "task" && !strings.Contains(got[1].Error(), "task: a panic: mine") {
			t.Errorf("the worker got: %v", got[1])
		}
		check(t, server.Close())
	}
}

// A context ends calls that wait.
func TestContextsOfServers(t *testing.T) {
	by := newChannels(3, time.Minute)
	ctx, cancel := context.WithCancel(context.Background())
	server := servedBy(t, 1, "asynchronous", 0, 3)
	began := time.Now()
	var first, second *Worker
	got := together(3, func(rank int) (err error) {
		switch rank {
		case 0:
			return server.Run(ctx, by[0])
		case 1:
			if first, err = NewWorker(context.Background(), by[1], WorkerOptions{}); err != nil {
				return err
			}
			short, stop := context.WithTimeout(context.Background(), 50*time.Millisecond)
			defer stop()
			err = first.Barrier(short) // the other one is not there
			cancel()
			return err
		default:
			second, err = NewWorker(context.Background(), by[2], WorkerOptions{})
			return err
		}
	})
	if !errors.Is(got[0], context.Canceled) || !errors.Is(got[1], context.DeadlineExceeded) || got[2] != nil {
		t.Error(got)
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("the contexts needed %v", took)
	}
	refused(t, got[0], RankFailed)
	equal(t, got[1].Error(), "the context: context deadline exceeded")
	if err := first.Barrier(context.Background()); err == nil || !strings.Contains(err.Error(), "server 0 has ended") {
		t.Error(err) // what the server has said when it ended
	}
	if err := second.Stop(ctx); !errors.Is(err, context.Canceled) { // before anything is sent
		t.Error(err)
	}
	none, stop := context.WithTimeout(context.Background(), 30*time.Millisecond)
	defer stop()
	if _, err := NewWorker(none, newChannels(2, time.Minute)[1], WorkerOptions{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

// What a server and a worker refuse, and their other calls.
func TestCallsOfServers(t *testing.T) {
	if _, err := NewServer(`{"tensors": {"a": {"rule": {"name": "sgd", "x": 1}}}}`, 0, 2); err == nil {
		t.Error("accepted")
	} else {
		refused(t, err, BadConfig)
	}
	refused(t, errorIn(NewServer(fmt.Sprintf(servedModel, 1, "geo"), 0, 2)), BadConfig)
	refused(t, errorIn(NewServer(fmt.Sprintf(servedModel, 1, "synchronous"), 1, 2)), BadConfig)
	server := servedBy(t, 1, "asynchronous", 0, 2)
	refused(t, server.AfterEvery(0, func(*Server) error { return nil }), BadValue)
	refused(t, server.AfterEvery(1, nil), NullArgument)
	refused(t, server.Checkpoint("a", -1), BadValue)
	refused(t, server.Checkpoint("a\x00", 1), BadValue)
	refused(t, server.Run(context.Background(), newChannels(3, time.Second)[0]), BadValue)
	refused(t, server.Run(context.Background(), newChannels(2, 0)[0]), BadValue)
	refused(t, server.Run(context.Background(), newChannels(2, time.Millisecond)[0]), RankFailed) // there is no worker
	messages := must[[]Message](t)(server.Handle(1, []byte("damaged")))
	if len(messages) == 0 || messages[0].To != 1 {
		t.Error(messages)
	}
	_ = must[[]Message](t)(server.Handle(1, nil))
	var none Server
	refused(t, none.Run(context.Background(), nil), BadHandle)
	refused(t, errorIn(none.Info()), BadHandle)
	refused(t, errorIn(KeyedTableOf[float32](nil, "wide")), BadHandle)
	refused(t, errorIn(KeyedTableOf[float32](&none, "wide")), BadHandle)
	equal(t, none.String(), "gradstep.Server{not made}")
	var worker Worker
	refused(t, worker.Barrier(context.Background()), BadHandle)
	refused(t, Pull(context.Background(), &worker, "a", []float32{1}), BadHandle)
	refused(t, Pull(context.Background(), nil, "a", []float32{1}), BadHandle)
	equal(t, worker.String(), "gradstep.Worker{not made}")
	refused(t, errorIn(NewWorker(context.Background(), newChannels(2, time.Second)[1], WorkerOptions{MaxKept: -1})), BadValue)
	refused(t, errorIn(NewWorker(context.Background(), newChannels(2, time.Second)[0], WorkerOptions{})), BadValue)
	refused(t, errorIn(NewWorker(context.Background(), newChannels(2, time.Millisecond)[1], WorkerOptions{})), RankFailed)
}

// A task evicts rows, sends them to a replica, and must not close its server; several goroutines share a worker.
func TestTasksAndGoroutines(t *testing.T) {
	const goroutines, steps = 4, 50
	by := newChannels(2, time.Minute)
	server := servedBy(t, 1, "asynchronous", 0, 2)
	replica := must[*KeyedTable[float32]](t)(NewKeyedTable[float32](`{"rule": {"name": "ftrl", "l1": 0.001},
		"schedule": {"name": "constant", "rate": 0.1}, "keyed_table": {"width": 1}}`))
	calls := 0
	check(t, server.AfterEvery(10, func(s *Server) error {
		calls++
		refused(t, s.Close(), BadSequence)
		refused(t, errorIn(s.Handle(1, nil)), BadSequence)
		wide, err := KeyedTableOf[float32](s, "wide")
		if err != nil {
			return err
		}
		if _, err := wide.Evict(func(row KeyedRow[float32]) bool { return row.Key < 10 }); err != nil {
			return err
		}
		changes, err := wide.ChangedSince(0, RowValues)
		if err != nil {
			return err
		}
		return replica.ApplyChanges(changes)
	}))
	succeed(t, 2, func(rank int) error {
		if rank == 0 {
			return server.Run(context.Background(), by[0])
		}
		worker, err := NewWorker(context.Background(), by[1], WorkerOptions{})
		if err != nil {
			return err
		}
		for _, err := range together(goroutines, func(g int) error {
			for step := 0; step < steps; step++ {
				keys, out := []uint64{uint64(g), uint64(100*g + step)}, make([]float32, 2)
				if err := PullRows(context.Background(), worker, "wide", keys, out); err != nil {
					return err
				}
				if err := PushRows(context.Background(), worker, "wide", keys, []float32{1, 1}); err != nil {
					return err
				}
			}
			return nil
		}) {
			if err != nil {
				return err
			}
		}
		equal(t, worker.String(), "gradstep.Worker{rank: 1 of 2}")
		info, err := worker.Info()
		if err != nil || info.Position != goroutines*steps || info.Workers != 1 {
			return fmt.Errorf("%+v: %w", info, err)
		}
		return worker.Stop(context.Background())
	})
	equal(t, calls, goroutines*steps/10)
	if len(must[[]uint64](t)(replica.Keys())) == 0 {
		t.Error("the replica has no rows")
	}
}

// Two workers train copies of a parameter, and exchange their changes.
func TestGeo(t *testing.T) {
	by := newChannels(3, time.Minute)
	var at [2][]float32
	succeed(t, 3, func(rank int) error {
		ctx := context.Background()
		if rank == 0 {
			server, err := NewServer(`{"mode": "geo", "tensors": {"w": {"rule": {"name": "add_delta"},
				"schedule": {"name": "constant", "rate": 1}, "parameter": {"size": 4, "initial": 8}}}}`, 0, 3)
			if err != nil {
				return err
			}
			return server.Run(ctx, by[0])
		}
		worker, err := NewWorker(ctx, by[rank], WorkerOptions{})
		if err != nil {
			return err
		}
		local, err := NewParameter(`{"rule": {"name": "sgd"}, "schedule": {"name": "constant", "rate": 0.5}}`, make([]float32, 4))
		if err != nil {
			return err
		}
		geo, err := NewGeo(ctx, worker, "w", local)
		if err != nil {
			return err
		}
		for step := 0; step < 200; step++ {
			w, err := local.Values() // the gradient of |w - 1|^2 / 2
			if err != nil {
				return err
			}
			for i := range w {
				w[i]--
			}
			if err := local.Update(w); err != nil {
				return err
			}
			if step%10 == 9 {
				if err := geo.Exchange(ctx); err != nil {
					return err
				}
			}
		}
		if err := worker.Barrier(ctx); err != nil {
			return err
		}
		if err := geo.Exchange(ctx); err != nil {
			return err
		}
		at[rank-1], err = local.Values()
		if err != nil {
			return err
		}
		check(t, geo.Close())
		refused(t, geo.Exchange(ctx), BadHandle)
		refused(t, errorIn(NewGeo(ctx, worker, "w", nil)), BadHandle)
		return worker.Stop(ctx)
	})
	for _, w := range at {
		for _, x := range w {
			if x < 0.99 || x > 1.01 {
				t.Errorf("%v", w)
			}
		}
	}
}

// States and increments pass through writers and readers.
func TestStreams(t *testing.T) {
	const config = `{"rule": {"name": "adagrad"}, "schedule": {"name": "constant", "rate": 0.5}, "keyed_table": {"width": 2}}`
	from, to := must[*KeyedTable[float32]](t)(NewKeyedTable[float32](config)), must[*KeyedTable[float32]](t)(NewKeyedTable[float32](config))
	replica := must[*KeyedTable[float32]](t)(NewKeyedTable[float32](config))
	const rows = 5000
	keys := make([]uint64, rows)
	for i := range keys {
		keys[i] = uint64(i) * 7
	}
	check(t, from.Update(keys, ofEach(make([]float32, 2*rows), 1)))
	var through bytes.Buffer
	for _, move := range []struct{ write, read func() (int64, error) }{
		{func() (int64, error) { return from.WriteTo(&through) }, func() (int64, error) { return to.ReadFrom(&through) }},
		{func() (int64, error) { return from.WriteChanges(&through, 0, RowValues) }, func() (int64, error) { return replica.ReadChanges(&through) }},
	} {
		written, size := must[int64](t)(move.write()), through.Len()
		equal(t, written, int64(size))
		equal(t, must[int64](t)(move.read()), int64(size))
	}
	for _, table := range []*KeyedTable[float32]{to, replica} {
		seen := map[uint64]bool{}
		check(t, table.RangeKeys(func(key uint64) bool { seen[key] = true; return true }))
		equal(t, len(seen), rows)
		equal(t, seen[7*(rows-1)], true)
		few := 0
		check(t, table.RangeKeys(func(uint64) bool { few++; return few < 10 }))
		equal(t, few, 10)
		equal(t, must[[]float32](t)(table.Row(7)), must[[]float32](t)(from.Row(7)))
	}
	p := must[*Parameter[float32]](t)(NewParameter(`{"rule": {"name": "adam"}, "schedule": {"name": "constant", "rate": 1}}`, []float32{1, 2}))
	q := must[*Parameter[float32]](t)(NewParameter(`{"rule": {"name": "adam"}, "schedule": {"name": "constant", "rate": 1}}`, []float32{0, 0}))
	_ = must[int64](t)(p.WriteTo(&through))
	_ = must[int64](t)(q.ReadFrom(&through))
	equal(t, must[[]float32](t)(q.Values()), []float32{1, 2})
	own := &failure{"broken"}
	if _, err := from.WriteTo(broken{own}); !errors.Is(err, own) {
		t.Error(err)
	}
	if _, err := from.WriteChanges(broken{own}, 0, RowState); !errors.Is(err, own) {
		t.Error(err)
	}
	if _, err := to.ReadFrom(broken{own}); !errors.Is(err, own) {
		t.Error(err)
	}
	if _, err := to.ReadChanges(strings.NewReader("damaged")); err == nil {
		t.Error("accepted")
	}
	check(t, from.Close())
	refused(t, errorIn(from.WriteTo(&through)), BadHandle)
	refused(t, errorIn(from.WriteChanges(&through, 0, RowValues)), BadHandle)
	refused(t, from.RangeKeys(func(uint64) bool { return true }), BadHandle)
}

type broken struct{ err error }

func (b broken) Write([]byte) (int, error) { return 0, b.err }
func (b broken) Read([]byte) (int, error)  { return 0, b.err }

// errorIn returns the error of a call with two results.
func errorIn[T any](_ T, err error) error { return err }
