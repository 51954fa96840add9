package gradstep_test

import (
	"context"
	"fmt"
	"log"
	"math"
	"time"

	"gradstep.org/gradstep"
)

// gradientOf the mean squared error of y = w[0] x + w[1] at points of the line y = 2 x - 1.
func gradientOf(w, gradient []float32) {
	const points = 64
	gradient[0], gradient[1] = 0, 0
	for i := 0; i < points; i++ {
		x := float32(i) / points
		wrong := w[0]*x + w[1] - (2*x - 1)
		gradient[0] += wrong * x / points
		gradient[1] += wrong / points
	}
}

func Example() {
	// [train]
	const adamw = `{"rule": {"name": "adam"}, "regularizer": {"name": "decoupled", "rate": 0.01},
		"schedule": {"name": "cosine", "rate": 1e-3, "steps": 10000}}`
	line, err := gradstep.NewParameter(adamw, []float32{0, 0})
	if err != nil {
		log.Fatal(err) // for example "rule.beta1: 1.5 is out of range; expected [0, 1)"
	}
	defer line.Close()
	gradient := make([]float32, 2)
	for t := 0; t < 10000; t++ {
		line.Read(func(w []float32) { gradientOf(w, gradient) })
		if err := line.Update(gradient); err != nil {
			log.Fatal(err)
		}
	}
	line.Read(func(w []float32) { fmt.Printf("slope %.2f, intercept %.2f\n", w[0], w[1]) })
	// [train]

	// Output: slope 2.00, intercept -1.00
}

func ExampleBatch() {
	const ftrl = `{"rule": {"name": "ftrl", "l1": 1.0}, "schedule": {"name": "constant", "rate": 0.1}}`
	const adagrad = `{"rule": {"name": "adagrad"}, "schedule": {"name": "constant", "rate": 0.01}}`
	// [batch]
	wide, err := gradstep.NewParameter(ftrl, make([]float32, 1000))
	if err != nil {
		log.Fatal(err)
	}
	deep, err := gradstep.NewParameter(adagrad, make([]float64, 64))
	if err != nil {
		log.Fatal(err)
	}
	batch, err := gradstep.NewBatch(wide, deep)
	if err != nil {
		log.Fatal(err)
	}
	wide.Gradient()[7] = 3 // memory for the next gradient, where a backward pass or a decoder writes
	deep.Gradient()[0] = 0.5
	if err := batch.Update(gradstep.ZeroGradient(), gradstep.Samples(32)); err != nil {
		log.Fatal(err)
	}
	// [batch]
	now, _ := deep.Clock()
	fmt.Println(now.Step, now.Samples, wide.Gradient()[7], deep.Gradient()[0])
	// Output: 1 32 0 0
}

func ExampleBatch_Ascend() {
	const sgd = `{"rule": {"name": "sgd"}, "schedule": {"name": "constant", "rate": 0.5}}`
	w, err := gradstep.NewParameter(sgd, []float32{4, 0.25})
	if err != nil {
		log.Fatal(err)
	}
	batch, err := gradstep.NewBatch(w)
	if err != nil {
		log.Fatal(err)
	}
	backward := func() { copy(w.Gradient(), []float32{3, -4}) }
	// [sharpness_aware]
	how := gradstep.DefaultSAM()
	how.Rho = 0.1
	backward() // writes the gradients
	norm, err := batch.Ascend(how)
	if err != nil {
		log.Fatal(err)
	}
	backward() // at the values that Ascend has left
	if err := batch.Descend(); err != nil {
		log.Fatal(err)
	}
	// [sharpness_aware]
	w.Read(func(values []float32) { fmt.Println(norm, values) })
	// Output: 5 [2.5 2.25]
}

func ExampleParameter_bFloat16Copy() {
	const sgd = `{"rule": {"name": "sgd"}, "schedule": {"name": "constant", "rate": 1}}`
	weights, err := gradstep.NewParameter(sgd, []float32{1, 0.5})
	if err != nil {
		log.Fatal(err)
	}
	gradient := []float32{2, 0}
	// [bfloat16 copy]
	halves, err := weights.BFloat16Copy() // of the present values
	if err != nil {
		log.Fatal(err)
	}
	if err := weights.Update(gradient); err != nil { // also writes halves
		log.Fatal(err)
	}
	// [bfloat16 copy]
	fmt.Printf("%04x\n", halves)
	// Output: [bf80 3f00]
}

func ExampleUpdater() {
	const config = `{"rule": {"name": "adam"}, "schedule": {"name": "constant", "rate": 0.25}}`
	// [updater]
	optimizer, err := gradstep.NewUpdater[float32](config)
	if err != nil {
		log.Fatal(err)
	}
	values, gradient := []float32{1, 2, 3}, []float32{1, -1, 1} // memory of Go's
	state, err := optimizer.Initialize(values)
	if err != nil {
		log.Fatal(err)
	}
	if err := optimizer.NextStep(); err != nil { // for all tensors of the model
		log.Fatal(err)
	}
	if err := optimizer.Apply(values, gradient, state); err != nil {
		log.Fatal(err)
	}
	// [updater]
	fmt.Printf("%.2f\n", values)
	// Output: [0.75 2.25 2.75]
}

func ExampleTable() {
	// [table]
	const config = `{"rule": {"name": "adagrad"}, "schedule": {"name": "constant", "rate": 0.5}, "type": "float32",
		"table": {"rows": 1000, "width": 2, "duplicates": "mean", "max_norm": 1, "concurrent": true}}`
	table, err := gradstep.NewTable[float32, int64](config)
	if err != nil {
		log.Fatal(err)
	}
	defer table.Close()
	// Each id has a gradient row.
	if err := table.Update([]int64{7, 40}, []float32{1, -1, 2, 2}); err != nil {
		log.Fatal(err)
	}
	// Bag 0 contains the ids 7 and 8, and bag 1 the id 9. Each bag has a gradient row.
	bags := gradstep.Bags[int64]{IDs: []int64{7, 8, 9}, Offsets: []int64{0, 2}}
	if err := table.UpdateBags(bags, []float32{1, 1, -1, -1}); err != nil {
		log.Fatal(err)
	}
	// Pools the rows of each bag: the mean, with a weight for each id.
	bags.Weights, bags.Mean = []float32{1, 3, 2}, true
	pooled := make([]float32, 4)
	if err := table.BagsInto(pooled, bags); err != nil {
		log.Fatal(err)
	}
	row, err := table.Row(9)
	// [table]
	fmt.Println(row, pooled[2:], err)
	// Output: [0.5 0.5] [1 1] <nil>
}

func ExampleKeyedTable() {
	// [keyed]
	const config = `{"rule": {"name": "adagrad"}, "schedule": {"name": "constant", "rate": 0.5}, "type": "float32",
		"keyed_table": {"width": 2, "admit_after": 2, "max_rows": 1000000, "touch_counts": true}}`
	features, err := gradstep.NewKeyedTable[float32](config)
	if err != nil {
		log.Fatal(err)
	}
	defer features.Close()
	words, err := gradstep.HashTexts("word=", []string{"optimizer"})
	if err != nil {
		log.Fatal(err)
	}
	word := words[0]
	for step := 0; step < 3; step++ { // the key 7 appears once, and gets no row
		keys := [][]uint64{{word, 7}, {word, 8}, {word, 8}}[step]
		if err := features.Update(keys, []float32{1, -1, 2, 2}); err != nil {
			log.Fatal(err)
		}
	}
	counts, err := features.Counts()
	// [keyed]
	fmt.Println(counts, err)
	// [evict]
	now, err := features.Clock()
	if err != nil {
		log.Fatal(err)
	}
	old, err := features.EvictOlderThan(now.Step - 10000)
	if err != nil {
		log.Fatal(err)
	}
	rare, err := features.Evict(func(row gradstep.KeyedRow[float32]) bool { return row.TouchCount < 2 })
	// [evict]
	fmt.Println(old, rare, err)
	// [replica]
	replica, err := gradstep.NewKeyedTable[float32](config)
	if err != nil {
		log.Fatal(err)
	}
	applied, err := replica.Clock()
	if err != nil {
		log.Fatal(err)
	}
	changes, err := features.ChangedSince(applied.Step, gradstep.RowValues) // []byte, which you send
	if err != nil {
		log.Fatal(err)
	}
	err = replica.ApplyChanges(changes)
	// [replica]
	keys, _ := replica.Keys()
	fmt.Println(len(keys), keys[0] == word, err)
	// Output:
	// {2 3 0 0 0} <nil>
	// 0 1 <nil>
	// 1 true <nil>
}

// [transport]
// peer is a rank whose messages go through channels, to other goroutines.
type peer struct {
	rank  int
	boxes []chan letter // one for each rank
}
type letter struct {
	from  int
	bytes []byte
}

func (p peer) Rank() int              { return p.rank }
func (p peer) Ranks() int             { return len(p.boxes) }
func (p peer) Timeout() time.Duration { return time.Minute }
func (p peer) Send(to int, message []byte) error {
	p.boxes[to] <- letter{p.rank, message} // with room for many, so that it does not wait
	return nil
}
func (p peer) Receive(wait time.Duration) (from int, message []byte, err error) {
	select {
	case got := <-p.boxes[p.rank]:
		return got.from, got.bytes, nil
	case <-time.After(wait):
		return 0, nil, nil
	}
}

// [transport]

// [server]
const wideModel = `{"mode": "asynchronous", "num_servers": 1, "tensors": {
	"wide": {"rule": {"name": "ftrl", "l1": 0.01}, "schedule": {"name": "constant", "rate": 0.1},
		"keyed_table": {"width": 1}},
	"bias": {"rule": {"name": "adam"}, "schedule": {"name": "constant", "rate": 0.01},
		"parameter": {"size": 1}}}}`

func serve(ctx context.Context, by gradstep.Transport) error {
	server, err := gradstep.NewServer(wideModel, by.Rank(), by.Ranks())
	if err != nil {
		return err
	}
	defer server.Close()
	if err := server.AfterEvery(500, func(s *gradstep.Server) error {
		wide, err := gradstep.KeyedTableOf[float32](s, "wide")
		if err != nil {
			return err
		}
		_, err = wide.EvictTo(50, nil)
		return err
	}); err != nil {
		return err
	}
	if err := server.Run(ctx, by); err != nil { // until every worker has stopped
		return err
	}
	info, err := server.Info()
	fmt.Printf("served %d pushes\n", info.Pushes)
	return err
}

// [server]

// [worker]
func work(ctx context.Context, by gradstep.Transport) error {
	worker, err := gradstep.NewWorker(ctx, by, gradstep.WorkerOptions{NumServers: 1})
	if err != nil {
		return err
	}
	defer worker.Close()
	weights, bias := make([]float32, 2), make([]float32, 1)
	for step := uint64(0); step < 1000; step++ {
		keys := []uint64{step % 7, 100 + step%11} // the label is 1 if the first one is odd
		if err := gradstep.PullRows(ctx, worker, "wide", keys, weights); err != nil {
			return err
		}
		if err := gradstep.Pull(ctx, worker, "bias", bias); err != nil {
			return err
		}
		score := float64(weights[0] + weights[1] + bias[0])
		wrong := float32(1/(1+math.Exp(-score))) - float32(keys[0]%2)
		gradients := []float32{wrong, wrong}
		if err := gradstep.PushRows(ctx, worker, "wide", keys, gradients); err != nil { // returns before the step
			return err
		}
		if err := gradstep.Push(ctx, worker, "bias", []float32{wrong}); err != nil {
			return err
		}
	}
	return worker.Stop(ctx)
}

// [worker]

func ExampleServer() {
	// [job]
	boxes := []chan letter{make(chan letter, 1000), make(chan letter, 1000), make(chan letter, 1000)}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	failed := make(chan error)
	for rank, run := range []func(context.Context, gradstep.Transport) error{serve, work, work} {
		rank, run := rank, run
		go func() { failed <- run(ctx, peer{rank, boxes}) }()
	}
	for range boxes {
		if err := <-failed; err != nil {
			log.Fatal(err)
		}
	}
	// [job]

	// Output: served 4000 pushes
}
