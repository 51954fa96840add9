package gradstep

import (
	"bytes"
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

const adam = `{"rule": {"name": "adam"}, "schedule": {"name": "constant", "rate": 0.1}}`

func must[T any](t testing.TB) func(T, error) T {
	return func(value T, err error) T {
		t.Helper()
		check(t, err)
		return value
	}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// wants an error of a code, whose message has every one of parts.
func wants(t *testing.T, err error, code Code, parts ...string) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) || e.Code != code || e.Message == "" {
		t.Fatalf("got %v, want an error of code %v", err, code)
	}
	for _, part := range parts {
		if !strings.Contains(e.Message, part) {
			t.Fatalf("%q does not say %q", e.Message, part)
		}
	}
}

func values(n int, f func(i float64) float64) []float32 {
	out := make([]float32, n)
	for i := range out {
		out[i] = float32(f(float64(i)))
	}
	return out
}

// near compares by the error of 50 steps in float: some roundings a step, of numbers below 8.
func near(t *testing.T, got []float32, want []float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d values, want %d", len(got), len(want))
	}
	for i := range got {
		if math.Abs(float64(got[i])-want[i]) > 50*8*0x1p-24*8 {
			t.Fatalf("value %d is %v, want %v", i, got[i], want[i])
		}
	}
}

// adamInDouble is Algorithm 1 of arXiv:1412.6980, with a rate for each step.
func adamInDouble(w, m, v []float64, gradient []float32, step int, rate float64) {
	for i, g := range gradient {
		g := float64(g)
		m[i] = 0.9*m[i] + 0.1*g
		v[i] = 0.999*v[i] + 0.001*g*g
		s := float64(step)
		w[i] -= rate * m[i] / (1 - math.Pow(0.9, s)) / (math.Sqrt(v[i]/(1-math.Pow(0.999, s))) + 1e-8)
	}
}

func TestUpdateIsAdam(t *testing.T) {
	const n = 37
	initial := values(n, math.Sin)
	p := must[*Parameter[float32]](t)(NewParameter(adam, initial))
	w, m, v := make([]float64, n), make([]float64, n), make([]float64, n)
	for i := range w {
		w[i] = float64(initial[i])
	}
	for step := 1; step <= 50; step++ {
		gradient := values(n, func(i float64) float64 { return math.Cos(i * float64(step)) })
		rate, options := 0.1, []Option(nil)
		switch {
		case step%3 == 0:
			rate, options = 0.05, []Option{RateScale(0.5), Samples(32)}
		case step%3 == 1:
			rate, options = 0.02, []Option{Rate(0.02), Epoch(7)}
		}
		check(t, p.Update(gradient, options...))
		adamInDouble(w, m, v, gradient, step, rate)
	}
	near(t, must[[]float32](t)(p.Values()), w)
	slots := must[[]Slot](t)(p.Slots())
	if len(slots) != 2 || slots[0].Name != "m" || slots[1].Name != "v" {
		t.Fatalf("slots %v", slots)
	}
	near(t, slots[0].Values.([]float32), m)
	near(t, slots[1].Values.([]float32), v)
	if now := must[Clock](t)(p.Clock()); now != (Clock{Step: 50, Samples: 16 * 32, Epoch: 7}) {
		t.Fatalf("clock %v", now)
	}
	for _, bad := range []float64{math.NaN(), math.Inf(1), -1} {
		wants(t, p.Update(initial, Rate(bad)), BadValue, "step_options.rate")
	}
	for _, bad := range []int64{-1, -2, math.MinInt64} {
		wants(t, p.Update(initial, Epoch(bad)), BadValue, "step_options.epoch")
	}
	check(t, p.SetNumbers(map[string]float64{"rule.beta1": 0.25}))
	wants(t, p.SetNumbers(map[string]float64{"rule.beta1": math.NaN()}), BadConfig, "rule.beta1")
	if text := must[string](t)(p.Config()); !strings.Contains(text, `"beta1":0.25`) {
		t.Fatal(text)
	}
}

// Values that are set are trained on, with the state as it was.
func TestSetValues(t *testing.T) {
	p := must[*Parameter[float32]](t)(NewParameter(adam, []float32{1, 2, 3}))
	check(t, p.Update([]float32{1, -1, 1}))
	state := must[[]Slot](t)(p.Slots())
	check(t, p.SetValues([]float32{7, 8, 9}))
	if got := must[[]float32](t)(p.Values()); !reflect.DeepEqual(got, []float32{7, 8, 9}) ||
		!reflect.DeepEqual(must[[]Slot](t)(p.Slots()), state) || must[Clock](t)(p.Clock()).Step != 1 {
		t.Fatal(got)
	}
	wants(t, p.SetValues([]float32{1}), BadSize)
	check(t, p.Read(func(values []float32) { wants(t, p.SetValues(values), BadBuffer) }))
	h := must[*Parameter[BFloat16]](t)(NewParameter(`{"rule": {"name": "sgd"}, "element": "mixed", "schedule": {"name": "constant", "rate": 1}}`,
		[]BFloat16{0}))
	check(t, h.SetValues([]BFloat16{0x4000})) // 2
	check(t, h.Update([]BFloat16{0x3f80}))    // 1
	if got := must[[]BFloat16](t)(h.Values()); got[0] != 0x3f80 {
		t.Fatal(got)
	}
}

// The state takes a byte an element; the first step has the bits of a float state.
func TestStateInEightBits(t *testing.T) {
	of := func(element string) *Parameter[float32] {
		return must[*Parameter[float32]](t)(NewParameter(`{"rule": {"name": "adam"}, "element": "`+element+
			`", "schedule": {"name": "constant", "rate": 0.125}}`, make([]float32, 1000)))
	}
	gradient := make([]float32, 1000)
	for i := range gradient {
		gradient[i] = float32(i%7) - 3
	}
	small, plain := of("block8"), of("plain")
	check(t, small.Update(gradient))
	check(t, plain.Update(gradient))
	if got := must[[]float32](t)(small.Values()); !reflect.DeepEqual(got, must[[]float32](t)(plain.Values())) {
		t.Fatal(got[:7])
	}
	if a, b := len(must[[]byte](t)(small.MarshalBinary())), len(must[[]byte](t)(plain.MarshalBinary())); a > b*2/3 {
		t.Fatal(a, b)
	}
}

// State that contains weights follows values that are set, in the library's memory and in slices.
func TestWeightsThatAreSet(t *testing.T) {
	madgrad, zeros := `{"rule": {"name": "madgrad"}, "schedule": {"name": "constant", "rate": 0.125}}`, []float32{0, 0}
	p := must[*Parameter[float32]](t)(NewParameter(madgrad, []float32{1, 2}))
	u := must[*Updater[float32]](t)(NewUpdater[float32](madgrad))
	values := []float32{1, 2}
	state := must[[]Slot](t)(u.Initialize(values))
	step := func(gradient []float32) {
		check(t, p.Update(gradient))
		check(t, u.NextStep())
		check(t, u.Apply(values, gradient, state))
	}
	step([]float32{1, -1})
	check(t, p.SetValues([]float32{7, 8}))
	copy(values, []float32{7, 8})
	check(t, u.WeightsSet(values, state))
	for i := 0; i < 4; i++ {
		step(zeros)
	}
	if got := must[[]float32](t)(p.Values()); !reflect.DeepEqual(got, []float32{7, 8}) || !reflect.DeepEqual(values, got) {
		t.Fatal(got, values)
	}
	wants(t, u.WeightsSet(values[:1], state), BadSize)
}

// Rows that are added, removed, put in another order and reset take their state with them.
func TestChangingRows(t *testing.T) {
	momentum := `{"rule": {"name": "momentum"}, "schedule": {"name": "constant", "rate": 1}}`
	p := must[*Parameter[float32]](t)(NewRows(momentum, 1, 2, []float32{1, 1}))
	check(t, p.Append([]float32{7, 7, 8, 8}))
	batch := must[*Batch](t)(NewBatch(p))
	for i := range p.Gradient() {
		p.Gradient()[i] = float32(i / 2)
	}
	check(t, batch.Update())
	check(t, p.Permute([]int64{2, 0, 1}))
	check(t, p.Keep([]bool{true, false, true}))
	check(t, p.Reset(1))
	got, slots := must[[]float32](t)(p.Values()), must[[]Slot](t)(p.Slots())
	if !reflect.DeepEqual(got, []float32{6, 6, 6, 6}) || !reflect.DeepEqual(slots[0].Values, []float32{2, 2, 0, 0}) || p.Rows() != 2 || p.Width() != 2 {
		t.Fatal(got, slots, p)
	}
	check(t, p.UpdateRows([]int64{1}, []float32{1, 1}))
	check(t, batch.Update()) // with gradients of the new size, which are 0
	check(t, p.Read(func(values []float32) { wants(t, p.Append(values), BadSequence, "Append", "Read") }))
	wants(t, p.Append([]float32{1}), BadSize, "append: 1 values")
	wants(t, p.Keep([]bool{true}), BadSize, "the mask has 1 elements")
	wants(t, p.Permute([]int64{1, 1}), BadValue, "row 1 is in the order twice")
	wants(t, p.Reset(2), BadValue, "expected a row in [0, 2)")
	vector := must[*Parameter[float32]](t)(NewParameter(momentum, []float32{1, 2}))
	check(t, vector.Append([]float32{3}))
	if vector.Rows() != 1 || vector.Width() != 3 {
		t.Fatal(vector)
	}
	check(t, vector.Update([]float32{1, 1, 1}))
	check(t, vector.Keep(make([]bool, 3)))
	check(t, must[*Parameter[float32]](t)(NewRows[float32](momentum, 1, 2, nil)).UpdateRows([]int64{0}, []float32{1, 1}))
}

func TestZeroGradientWritesTheSlice(t *testing.T) {
	p := must[*Parameter[float32]](t)(NewParameter(adam, make([]float32, 5)))
	gradient := []float32{1, 2, 3, 4, 5}
	check(t, p.Update(gradient, ZeroGradient()))
	if !reflect.DeepEqual(gradient, make([]float32, 5)) {
		t.Fatal(gradient)
	}
}

// A slice of an array between pointers: cgo refuses a pointer to the whole of it.
func TestGradientBesidePointers(t *testing.T) {
	type message struct {
		from     *string
		gradient [8]float32
		ids      [1]int64
		to       []*string
	}
	name := "trainer"
	m := &message{from: &name, to: []*string{&name}}
	m.gradient[3] = 1
	p := must[*Parameter[float32]](t)(NewRows[float32](adam, 4, 8, nil))
	check(t, p.UpdateRows(m.ids[:], m.gradient[:]))
	check(t, p.RowsInto(m.gradient[:], m.ids[:]...))
	if m.gradient[3] == 1 || m.gradient[3] == 0 {
		t.Fatal(m.gradient)
	}
	check(t, must[*Parameter[float32]](t)(NewParameter(adam, m.gradient[:])).Update(m.gradient[:]))
	optimizer := must[*Updater[float32]](t)(NewUpdater[float32](adam))
	state := must[[]Slot](t)(optimizer.Initialize(m.gradient[:]))
	check(t, optimizer.NextStep())
	var other message
	other.to = m.to
	check(t, optimizer.Apply(m.gradient[:], other.gradient[:], state))
}

func TestEveryElement(t *testing.T) {
	const add = `{"rule": {"name": "add_delta"}, "schedule": {"name": "constant", "rate": 1}}`
	t.Run("float32", func(t *testing.T) { addsOne(t, adds[float32]{add, 2, 1, 3}) })
	t.Run("float64", func(t *testing.T) { addsOne(t, adds[float64]{add, 2, 1, 3}) })
	t.Run("BFloat16", func(t *testing.T) { addsOne(t, adds[BFloat16]{add, 0x4000, 0x3f80, 0x4040}) })
	t.Run("Float16", func(t *testing.T) { addsOne(t, adds[Float16]{add, 0x4000, 0x3c00, 0x4200}) })
	t.Run("int32", func(t *testing.T) { addsOne(t, adds[int32]{add, -2, 1, -1}) })
	t.Run("uint32", func(t *testing.T) { addsOne(t, adds[uint32]{add, math.MaxUint32, 1, 0}) })
	t.Run("int64", func(t *testing.T) { addsOne(t, adds[int64]{add, math.MaxInt64, 1, math.MinInt64}) })
	t.Run("uint64", func(t *testing.T) { addsOne(t, adds[uint64]{add, 1 << 40, 1, 1<<40 + 1}) })
}

type adds[T Element] struct {
	config         string
	from, by, want T
}

func addsOne[T Element](t *testing.T, a adds[T]) {
	p := must[*Parameter[T]](t)(NewParameter(a.config, []T{a.from, a.from, a.from}))
	check(t, p.Update([]T{a.by, a.by, a.by}))
	if got := must[[]T](t)(p.Values()); !reflect.DeepEqual(got, []T{a.want, a.want, a.want}) {
		t.Fatalf("got %v", got)
	}
}

// Every rule, preset, schedule, regularizer, average and clip, and every kind of memory, trains.
func TestConfigurations(t *testing.T) {
	list, err := os.ReadFile("../../test/c/configurations.txt")
	check(t, err)
	for _, line := range strings.Split(string(list), "\n") {
		dtype, config, found := strings.Cut(line, " {")
		if !found || dtype == "#" {
			continue
		}
		config = "{" + config
		t.Run(line, func(t *testing.T) {
			switch dtype {
			case "float32":
				trains(t, config, func(x float32) float32 { return x })
			case "float64":
				trains(t, config, func(x float32) float64 { return float64(x) })
			case "bfloat16":
				trains(t, config, func(x float32) BFloat16 { return BFloat16(math.Float32bits(x) >> 16) })
			case "float16":
				trains(t, config, func(x float32) Float16 {
					return map[float32]Float16{-3: 0xc200, -2: 0xc000, -1: 0xbc00, 0: 0, 1: 0x3c00, 2: 0x4000, 3: 0x4200}[x]
				})
			case "int32":
				trains(t, config, func(x float32) int32 { return int32(x) })
			case "int64":
				trains(t, config, func(x float32) int64 { return int64(x) })
			default:
				t.Fatalf("the dtype is %q", dtype)
			}
		})
	}
}

func trains[T Element](t *testing.T, config string, of func(float32) T) {
	numbers := func(seed, span int) []T {
		out := make([]T, 24)
		for i := range out {
			out[i] = of(float32((i+seed)%span - span/2))
		}
		return out
	}
	initial := numbers(0, 5)
	p := must[*Parameter[T]](t)(NewRows(config, 4, 6, initial))
	for step := 0; step < 8; step++ {
		check(t, p.Update(numbers(step, 7), Loss(0.5), Samples(2), Epoch(int64(step))))
	}
	values := must[[]T](t)(p.Values())
	if reflect.DeepEqual(values, initial) {
		t.Fatal("no value has moved")
	}
	if _, element, err := FirstNonFinite(values); err == nil && element != -1 { // an error: integers are finite
		t.Fatal(values)
	}
}

func TestThreadsGiveTheBitsOfOne(t *testing.T) {
	const n = 300_000 // enough to be split
	var states [2][]byte
	for i, config := range []string{adam, strings.Replace(adam, "{", `{"threads": 2, `, 1)} {
		p := must[*Parameter[float32]](t)(NewParameter(config, values(n, math.Sin)))
		check(t, p.Update(values(n, math.Cos)))
		states[i] = must[[]byte](t)(p.MarshalBinary())
	}
	if !bytes.Equal(states[0], states[1]) {
		t.Fatal("two threads give other bits than one")
	}
}

func TestGradientsThatAreNotFinite(t *testing.T) {
	of := func(what string) *Parameter[float32] {
		return must[*Parameter[float32]](t)(NewParameter(`{`+sgd+`, "on_nonfinite": "`+what+`"}`, []float32{1, 2}))
	}
	nan := float32(math.NaN())
	propagates, skips, raises := of("propagate"), of("skip"), of("raise")
	check(t, propagates.Update([]float32{1, nan}))
	if got := must[[]float32](t)(propagates.Values()); got[0] != 0 || got[1] == got[1] {
		t.Fatal(got)
	}
	check(t, skips.Update([]float32{1, nan}))
	wants(t, raises.Update([]float32{1, nan}), NotFinite, "element 1")
	for _, p := range []*Parameter[float32]{skips, raises} {
		equal(t, must[[]float32](t)(p.Values()), []float32{1, 2})
	}
}

func TestClips(t *testing.T) {
	for clip, want := range map[string][]float32{ // of the gradient (3, -4), whose norm is 5
		`"clip_norm", "limit": 2.5`:        {-1.5, 2},
		`"clip_global_norm", "limit": 2.5`: {-1.5, 2},
		`"clip_value", "limit": 3.5`:       {-3, 3.5},
	} {
		p := must[*Parameter[float32]](t)(NewParameter(`{`+sgd+`, "clip": {"name": `+clip+`}}`, []float32{0, 0}))
		check(t, p.Update([]float32{3, -4}))
		equal(t, must[[]float32](t)(p.Values()), want)
	}
}

func TestRows(t *testing.T) {
	const rows, width = 10, 3
	p := must[*Parameter[float32]](t)(NewRows[float32](adam, rows, width, nil))
	ones := values(2*width, func(float64) float64 { return 1 })
	check(t, p.UpdateRows([]int64{7, 2}, ones))
	for id := int64(0); id < rows; id++ {
		row := must[[]float32](t)(p.Row(id))
		want := make([]float64, width)
		if id == 7 || id == 2 {
			want = []float64{-0.1, -0.1, -0.1}
		}
		near(t, row, want)
	}
	out := make([]float32, 2*width)
	check(t, p.RowsInto(out, 0, 7))
	near(t, out, []float64{0, 0, 0, -0.1, -0.1, -0.1})

	before := must[[]byte](t)(p.MarshalBinary())
	wants(t, p.UpdateRows([]int64{10, 2}, ones), BadValue, "10")
	wants(t, p.UpdateRows([]int64{-1, 2}, ones), BadValue, "-1")
	wants(t, p.UpdateRows([]int64{1}, ones), BadSize)
	wants(t, p.RowsInto(out, 0, 1, 2), BadSize)
	_, err := p.Row(10)
	wants(t, err, BadValue, "10")
	if !reflect.DeepEqual(before, must[[]byte](t)(p.MarshalBinary())) {
		t.Fatal("a call that failed has changed something")
	}
	check(t, p.UpdateRows(nil, nil))
	check(t, p.Flush())
	if p.Rows() != rows || p.Width() != width || p.Len() != rows*width {
		t.Fatal(p.Rows(), p.Width(), p.Len())
	}
}

// Parameters of one configuration draw different random numbers.
func TestBatchDrawsDifferentNumbers(t *testing.T) {
	make := func() *Parameter[float32] {
		return must[*Parameter[float32]](t)(NewParameter(
			`{"rule": {"name": "sgld"}, "schedule": {"name": "constant", "rate": 0.125}}`, []float32{0, 0, 0, 0, 0, 0, 0, 0}))
	}
	a, b, c, d := make(), make(), make(), make()
	values := func(p *Parameter[float32]) []float32 { return must[[]float32](t)(p.Values()) }
	first := must[*Batch](t)(NewBatch(a, b))
	check(t, first.Update())
	if reflect.DeepEqual(values(a), values(b)) {
		t.Fatal("two parameters drew the same numbers")
	}
	check(t, c.UnmarshalBinary(must[[]byte](t)(a.MarshalBinary())))
	check(t, d.UnmarshalBinary(must[[]byte](t)(b.MarshalBinary())))
	added := make()
	second := must[*Batch](t)(NewBatch(added, d, c))
	for step := 0; step < 2; step++ {
		check(t, first.Update())
		check(t, second.Update())
	}
	if !reflect.DeepEqual(values(a), values(c)) || !reflect.DeepEqual(values(b), values(d)) {
		t.Fatal("a run that resumes beside a new parameter draws other numbers")
	}
	if reflect.DeepEqual(values(added), values(d)) {
		t.Fatal("a new parameter drew the numbers of another one")
	}
}

// A batch gives the bits of single updates, whatever the elements and the optimizers are.
func TestBatchIsEveryUpdate(t *testing.T) {
	const momentum = `{"rule": {"name": "momentum"}, "schedule": {"name": "constant", "rate": 0.01}, "threads": 2}`
	make := func() (*Parameter[float32], *Parameter[float64], *Parameter[float32]) {
		return must[*Parameter[float32]](t)(NewParameter(adam, values(1000, math.Sin))),
			must[*Parameter[float64]](t)(NewParameter(momentum, []float64{1, 2, 3})),
			must[*Parameter[float32]](t)(NewRows(momentum, 7, 9, values(63, math.Cos)))
	}
	a, b, c := make()
	d, e, f := make()
	batch := must[*Batch](t)(NewBatch(d, e, f))
	for step := 0; step < 5; step++ {
		for i := range d.Gradient() {
			d.Gradient()[i] = float32(i) / float32(step+1)
		}
		copy(e.Gradient(), []float64{0.5, -0.5, float64(step)})
		f.Gradient()[step] = 1
		check(t, a.Update(d.Gradient(), RateScale(0.5)))
		check(t, b.Update(e.Gradient(), RateScale(0.5)))
		check(t, c.Update(f.Gradient(), RateScale(0.5)))
		check(t, batch.Update(RateScale(0.5)))
	}
	for i, pair := range [][2]interface{ MarshalBinary() ([]byte, error) }{{a, d}, {b, e}, {c, f}} {
		if !reflect.DeepEqual(must[[]byte](t)(pair[0].MarshalBinary()), must[[]byte](t)(pair[1].MarshalBinary())) {
			t.Fatalf("parameter %d differs", i)
		}
	}
	empty := must[*Batch](t)(NewBatch())
	check(t, empty.Update())
	_, err := NewBatch(a, a)
	if err == nil {
		twice := must[*Batch](t)(NewBatch(a, a))
		err = twice.Update()
	}
	if err == nil {
		t.Fatal("a parameter twice in one batch was taken")
	}
}

// The values move by Rho along the gradients of norm 2.5, and the step begins at the values before.
func TestSharpnessAwareSteps(t *testing.T) {
	const momentum = `{"rule": {"name": "momentum"}, "schedule": {"name": "constant", "rate": 0.5}, "on_nonfinite": "skip"}`
	wide := must[*Parameter[float32]](t)(NewParameter(momentum, []float32{1, -2}))
	deep := must[*Parameter[float64]](t)(NewParameter(momentum, []float64{0.5}))
	batch := must[*Batch](t)(NewBatch(wide, deep))
	copy(wide.Gradient(), []float32{2, 0})
	deep.Gradient()[0] = 1.5
	how := DefaultSAM()
	how.Rho, how.Epsilon = 5, 0
	if norm := must[float64](t)(batch.Ascend(how)); norm != 2.5 {
		t.Fatal(norm)
	}
	at := func(w []float32, d float64) {
		t.Helper()
		a, b := must[[]float32](t)(wide.Values()), must[[]float64](t)(deep.Values())
		if !reflect.DeepEqual(a, w) || b[0] != d {
			t.Fatal(a, b)
		}
	}
	at([]float32{5, -2}, 3.5)
	_, err := batch.Ascend(how)
	wants(t, err, BadSequence)
	wants(t, batch.Update(), BadSequence)
	_, err = wide.MarshalBinary()
	wants(t, err, BadSequence)
	_, err = wide.BFloat16Copy()
	wants(t, err, BadSequence)
	copy(wide.Gradient(), []float32{1, 1})
	deep.Gradient()[0] = -1
	wants(t, batch.Descend(RateScale(-1)), BadValue)
	check(t, batch.Descend(ZeroGradient(), Samples(3)))
	at([]float32{0.5, -2.5}, 1)
	if now := must[Clock](t)(wide.Clock()); now.Step != 1 || now.Samples != 3 || wide.Gradient()[0] != 0 {
		t.Fatal(now, wide.Gradient())
	}
	wants(t, batch.Descend(), BadSequence, "ascend() first")

	// One parameter alone, by ASAM: a = 1 + |w|.
	how = SAM{Rho: 0.5, Adaptive: true, Eta: 1}
	one := must[*Parameter[float64]](t)(NewParameter(`{"rule": {"name": "sgd"}, "schedule": {"name": "constant", "rate": 1}}`, []float64{1}))
	if norm := must[float64](t)(one.Ascend([]float64{3}, how)); norm != 6 || must[[]float64](t)(one.Values())[0] != 2 {
		t.Fatal(norm, one)
	}
	wants(t, one.Descend(nil), BadSize)
	check(t, one.Descend([]float64{0.25}))
	must[float64](t)(one.Ascend([]float64{3}, how))
	check(t, one.Restore())
	if got := must[[]float64](t)(one.Values())[0]; got != 0.75 {
		t.Fatal(got)
	}
	how.Rho = -1
	_, err = one.Ascend([]float64{3}, how)
	wants(t, err, BadValue, "rho")

	// A gradient that its parameter skips ends the step of all.
	deep.Gradient()[0] = math.NaN()
	if norm := must[float64](t)(batch.Ascend(DefaultSAM())); !math.IsNaN(norm) {
		t.Fatal(norm)
	}
	at([]float32{0.5, -2.5}, 1)
	_, err = (*Batch)(&Batch{}).Ascend(how)
	wants(t, err, BadHandle)
}

func TestCopyInBFloat16(t *testing.T) {
	initial := values(30, math.Sin)
	bits := func(p *Parameter[float32]) []BFloat16 { // rounded to nearest, ties to even
		var out []BFloat16
		for _, value := range must[[]float32](t)(p.Values()) {
			whole := math.Float32bits(value)
			out = append(out, BFloat16((whole+0x7fff+whole>>16&1)>>16))
		}
		return out
	}
	p := must[*Parameter[float32]](t)(NewRows(adam, 6, 5, initial))
	halves := must[[]BFloat16](t)(p.BFloat16Copy())
	same := func() {
		t.Helper()
		if !reflect.DeepEqual(halves, bits(p)) {
			t.Fatal(halves, bits(p))
		}
	}
	same()
	check(t, p.Update(values(30, math.Cos)))
	same()
	check(t, p.UpdateRows([]int64{4}, initial[:5]))
	same()
	check(t, p.SetValues(initial))
	if again := must[[]BFloat16](t)(p.BFloat16Copy()); &again[0] != &halves[0] {
		t.Fatal("there are two copies")
	}
	same()
	wants(t, p.Append(initial[:5]), BadValue, "bfloat16_copy")
	_, err := p.Ascend(initial, DefaultSAM())
	wants(t, err, BadValue, "bfloat16_copy")
	check(t, p.EndBFloat16Copy())
	check(t, p.Append(initial[:5]))
	halves = must[[]BFloat16](t)(p.BFloat16Copy())
	same()
	check(t, p.Close())
	_, err = p.BFloat16Copy()
	wants(t, err, BadHandle)
	double := must[*Parameter[float64]](t)(NewParameter(adam, []float64{1}))
	_, err = double.BFloat16Copy()
	wants(t, err, BadValue, "not kept in float")
	empty := must[*Parameter[float32]](t)(NewRows[float32](adam, 0, 5, nil))
	if halves := must[[]BFloat16](t)(empty.BFloat16Copy()); len(halves) != 0 {
		t.Fatal(halves)
	}
	check(t, empty.Append(initial[:5]))
	if halves := must[[]BFloat16](t)(empty.BFloat16Copy()); !reflect.DeepEqual(halves, bits(empty)) {
		t.Fatal(halves)
	}
}

func TestUpdaterIsAParameter(t *testing.T) {
	const n = 100
	w := values(n, math.Sin)
	p := must[*Parameter[float32]](t)(NewParameter(adam, w))
	u := must[*Updater[float32]](t)(NewUpdater[float32](adam))
	state := must[[]Slot](t)(u.Initialize(w))
	wants(t, u.Apply(w, w[:n:n], state), BadSequence)
	for step := 0; step < 5; step++ {
		gradient := values(n, func(i float64) float64 { return math.Sin(i + float64(step)) })
		check(t, p.Update(gradient))
		check(t, u.NextStep())
		check(t, u.Apply(w, gradient, state))
	}
	if !reflect.DeepEqual(w, must[[]float32](t)(p.Values())) || !reflect.DeepEqual(state, must[[]Slot](t)(p.Slots())) {
		t.Fatal("the updater gave other bits")
	}
	gradient := make([]float32, n)
	wants(t, u.Apply(w, gradient[1:], state), BadSize, "99")
	wants(t, u.Apply(w, gradient, state[1:]), BadSize, "1 slots")
	wants(t, u.Apply(w, gradient, []Slot{state[0], {"v", make([]float64, n)}}), BadSize, "slot v", "[]float64", "[]float32")
	wants(t, u.Apply(w, gradient, []Slot{state[0], {"v", 5}}), BadSize, "slot v", "int")
	wants(t, u.Apply(w, gradient, []Slot{state[0], {"v", nil}}), BadSize, "slot v", "nil")
	wants(t, u.Apply(w, gradient, []Slot{state[1], state[0]}), BadValue, "slot 0", `"v"`, `"m"`)
	wants(t, u.Apply(w, gradient, []Slot{{Values: state[0].Values}, state[1]}), BadValue, "slot 0", `""`, `"m"`)

	at := must[Clock](t)(u.Clock())
	if at.Step != 5 {
		t.Fatal(at)
	}
	check(t, u.Seek(Clock{Step: 100}))
	check(t, u.NextStep(Rate(0)))
	check(t, u.SetNumbers(map[string]float64{"rule.beta1": 0.25, "rule.beta2": 0.5}))
	if text := must[string](t)(u.Config()); !strings.Contains(text, `"beta1":0.25`) || !strings.Contains(text, `"beta2":0.5`) {
		t.Fatal(text)
	}
	for _, path := range []string{"rule.beta1", "rule.beta1\x00", "rule.beta", ""} {
		wants(t, u.SetNumbers(map[string]float64{path: 1.5, "rule.epsilon": 0.5}), BadConfig)
	}
	check(t, u.NextStep(Rate(0)))
	before := append([]float32(nil), w...)
	check(t, u.Apply(w, gradient, state))
	if !reflect.DeepEqual(w, before) {
		t.Fatal("a step of rate 0 has moved the values")
	}
}

func TestPartsOfOneBufferHaveTheirOwnDecay(t *testing.T) {
	const of, n, first = `{"rule": {"name": "adam"}, "regularizer": {"name": "decoupled", "rate": %g},
		"schedule": {"name": "constant", "rate": 0.0625}, "clip": {"name": "clip_global_norm", "limit": 0.5}}`, 100, 60
	w := values(n, math.Sin)
	alone := append([]float32(nil), w...)
	all := must[*Updater[float32]](t)(NewUpdater[float32](fmt.Sprintf(of, 0.5)))
	state := must[[]Slot](t)(all.Initialize(w))
	parts := []Part{NewPart(first), NewPart(n - first).WithDecay(0).WithRateScale(0.5)}
	plain := strings.ReplaceAll(of, `, "clip": {"name": "clip_global_norm", "limit": 0.5}`, "")
	var updaters [2]*Updater[float32]
	var states [2][]Slot
	halves := [2][2]int{{0, first}, {first, n}}
	for k, decay := range []float64{0.5, 0} {
		updaters[k] = must[*Updater[float32]](t)(NewUpdater[float32](fmt.Sprintf(plain, decay)))
		states[k] = must[[]Slot](t)(updaters[k].Initialize(alone[halves[k][0]:halves[k][1]]))
	}
	for step := 0; step < 4; step++ {
		gradient := values(n, func(i float64) float64 { return math.Cos(i + float64(step)) })
		norm := must[float64](t)(GlobalNorm(gradient))
		if both := must[float64](t)(GlobalNorm(gradient[:first], gradient[first:])); math.Abs(both-norm) > 1e-12*norm || norm < 0.5 {
			t.Fatal(both, norm)
		}
		check(t, all.NextStep())
		check(t, all.ApplyParts(w, gradient, state, parts))
		for k, half := range halves {
			scale := []float64{1, 0.5}[k]
			check(t, updaters[k].NextStep(GradientScale(0.5/norm), RateScale(scale)))
			check(t, updaters[k].Apply(alone[half[0]:half[1]], gradient[half[0]:half[1]], states[k]))
		}
	}
	if !reflect.DeepEqual(w, alone) {
		t.Fatal("the parts of one call have other bits than two updaters")
	}
	gradient := make([]float32, n)
	wants(t, all.ApplyParts(w, gradient[1:], state, parts), BadSize, "99")
	wants(t, all.ApplyParts(w, gradient, state, parts[:1]), BadSize, "60", "100")
	wants(t, all.ApplyParts(w, gradient, state, []Part{NewPart(101)}), BadSize, "part 0")
	wants(t, all.ApplyParts(w, gradient, state, []Part{NewPart(-1), NewPart(101)}), BadSize, "part 0")
	check(t, all.NextStep())
	wants(t, all.ApplyParts(w, gradient, state, []Part{NewPart(n).WithDecay(-1)}), BadValue, "decay", "-1")
	wants(t, all.ApplyParts(w, gradient, state, []Part{NewPart(n).WithRateScale(math.NaN())}), BadValue, "rate_scale")
	wants(t, all.ApplyParts(w, gradient, state, []Part{NewPart(n).WithStep(-1)}), BadValue, "step", "-1")
	check(t, all.ApplyParts(w, gradient, state, []Part{NewPart(n).WithStep(3)}))
	layers := must[*Updater[float32]](t)(NewUpdater[float32](strings.ReplaceAll(adam, "adam", "rowwise_adagrad")))
	ofLayers := must[[]Slot](t)(layers.Initialize(w))
	check(t, layers.NextStep())
	wants(t, layers.ApplyParts(w, gradient, ofLayers, parts), BadSize, "one number for a whole tensor")
}

func TestNormsAndNonFiniteElements(t *testing.T) {
	if norm := must[float64](t)(GlobalNorm([]float64{3, 0}, nil, []float64{4})); norm != 5 {
		t.Fatal(norm)
	}
	if norm := must[float64](t)(GlobalNorm[float32]()); norm != 0 {
		t.Fatal(norm)
	}
	bad := []float32{1, 2, float32(math.Inf(-1))}
	if norm := must[float64](t)(GlobalNorm([]float32{1}, bad)); !math.IsInf(norm, 1) {
		t.Fatal(norm)
	}
	if gradient, element, err := FirstNonFinite([]float32{1}, bad); gradient != 1 || element != 2 || err != nil {
		t.Fatal(gradient, element, err)
	}
	if gradient, element, err := FirstNonFinite([]float32{1}, bad[:2]); gradient != -1 || element != -1 || err != nil {
		t.Fatal(gradient, element, err)
	}
	_, err := GlobalNorm([]int32{1})
	wants(t, err, UnsupportedType, "int32")
	_, _, err = FirstNonFinite([]uint64{1})
	wants(t, err, UnsupportedType, "uint64")
}

func TestFloat64NamesFloat32(t *testing.T) {
	lion := strings.ReplaceAll(adam, "adam", "lion")
	_, err := NewParameter(lion, []float64{1})
	wants(t, err, NotCompiled, "float64", "float32")
	_, err = NewUpdater[float64](lion)
	wants(t, err, NotCompiled, "float64", "float32")
}

func TestTrainersSendEachOtherWhatTheyCompress(t *testing.T) {
	const n, rule = 40, `{"rule": {"name": "dgc_momentum", "rampup_begin_step": 2, "sparsity": [0.75], "num_trainers": 2, "dense_below": 0},
		"schedule": {"name": "constant", "rate": 0.5}}`
	initial := values(n, math.Sin)
	trainers := [2]*Parameter[float32]{must[*Parameter[float32]](t)(NewParameter(rule, initial)), must[*Parameter[float32]](t)(NewParameter(rule, initial))}
	momentum := must[*Parameter[float32]](t)(NewParameter(`{"rule": {"name": "momentum"}, "schedule": {"name": "constant", "rate": 0.5}}`, initial))
	for step := 0; step < 4; step++ {
		var messages [][]byte
		mean := make([]float32, n)
		for r, each := range trainers {
			gradient := values(n, func(i float64) float64 { return math.Cos(i*float64(step+1) + float64(r)) })
			for i, g := range gradient {
				mean[i] += g / 2
			}
			messages = append(messages, must[[]byte](t)(each.Compress(gradient)))
			if want := map[bool]int{true: 40 + 4*n, false: 40 + 10*8}[step < 2]; len(messages[r]) != want {
				t.Fatalf("%d bytes in step %d, want %d", len(messages[r]), step, want)
			}
		}
		before := must[[]float32](t)(trainers[0].Values())
		for _, bad := range [][][]byte{nil, messages[:1], {messages[0], nil}, {messages[0], messages[1][1:]}} {
			wants(t, trainers[0].Apply(bad), BadValue)
		}
		_, err := trainers[0].Compress(mean)
		wants(t, err, BadSequence, "apply() first")
		if !reflect.DeepEqual(before, must[[]float32](t)(trainers[0].Values())) {
			t.Fatal("what was refused has changed the values")
		}
		check(t, trainers[0].Apply(messages))
		check(t, trainers[1].Apply(messages))
		got := must[[]float32](t)(trainers[0].Values())
		if !reflect.DeepEqual(got, must[[]float32](t)(trainers[1].Values())) {
			t.Fatal("the trainers hold other bits")
		}
		if step < 2 { // of the mean, bit for bit
			check(t, momentum.Update(mean))
			if !reflect.DeepEqual(got, must[[]float32](t)(momentum.Values())) {
				t.Fatal("a dense step is not that of momentum")
			}
		}
		// u and v are each trainer's own.
		resumed := must[*Parameter[float32]](t)(NewParameter(rule, initial))
		check(t, resumed.UnmarshalBinary(must[[]byte](t)(trainers[1].MarshalBinary())))
		trainers[1] = resumed
	}
	wants(t, trainers[0].Apply(nil), BadSequence, "compress() first")
	_, err := momentum.Compress(initial)
	wants(t, err, BadValue, "expected dgc_momentum")
}

func TestErrors(t *testing.T) {
	_, err := NewParameter(`{"rule": {"name": "adam", "beta1": 1.5}, "schedule": {"name": "constant", "rate": 0.1}}`, []float32{1})
	wants(t, err, BadConfig, "rule.beta1", "1.5", "[0, 1)")
	if !errors.Is(err, &Error{Code: BadConfig}) || errors.Is(err, &Error{Code: BadSize}) {
		t.Fatal("errors.Is does not compare codes")
	}
	_, err = NewUpdater[float32]("no JSON")
	wants(t, err, BadConfig)
	_, err = NewParameter("", []float32{1})
	wants(t, err, BadConfig)
	_, err = NewParameter(adam, []int32{1})
	wants(t, err, UnsupportedType)
	_, err = NewRows(adam, 2, 3, make([]float32, 5))
	wants(t, err, BadSize, "5 values", "2 rows of width 3")
	_, err = NewRows[float32](adam, -1, 3, nil)
	wants(t, err, BadSize, "-1")
	_, err = NewRows[float32](adam, math.MaxInt, math.MaxInt, nil)
	if err == nil {
		t.Fatal("more elements than there is memory were taken")
	}

	p := must[*Parameter[float32]](t)(NewParameter(adam, []float32{1, 2}))
	wants(t, p.Update([]float32{1}), BadSize)
	wants(t, p.Update(nil), BadSize)
	wants(t, p.Update([]float32{1, 2}, RateScale(-1)), BadValue)
	wants(t, p.Seek(Clock{Step: -1}), BadValue)
	wants(t, p.UnmarshalBinary([]byte("something else")), BadValue)
	wants(t, p.UnmarshalBinary(nil), BadValue)
	if got := must[[]float32](t)(p.Values()); !reflect.DeepEqual(got, []float32{1, 2}) {
		t.Fatal(got)
	}
}

func TestClosed(t *testing.T) {
	p := must[*Parameter[float32]](t)(NewParameter(adam, []float32{1, 2}))
	batch := must[*Batch](t)(NewBatch(p))
	check(t, p.Close())
	check(t, p.Close())
	wants(t, p.Update([]float32{1, 2}), BadHandle, "closed")
	wants(t, batch.Update(), BadHandle, "closed")
	_, err := p.Values()
	wants(t, err, BadHandle)
	_, err = p.Config()
	wants(t, err, BadHandle)
	_, err = NewBatch(p)
	wants(t, err, BadHandle)
	wants(t, SaveFile(filepath.Join(t.TempDir(), "x"), map[string]AnyParameter{"w": p}), BadHandle, "w: is closed")
	if p.Gradient() != nil {
		t.Fatal("a closed parameter has a gradient")
	}
	check(t, batch.Close())
	check(t, batch.Close())
	wants(t, batch.Update(), BadHandle, "closed")
	u := must[*Updater[float32]](t)(NewUpdater[float32](adam))
	check(t, u.Close())
	wants(t, u.NextStep(), BadHandle, "closed")
}

// A copy of a handle is the same handle: no copy outlives the memory, and none frees it twice.
func TestCopies(t *testing.T) {
	gradient := []float32{1, -1}
	original := must[*Parameter[float32]](t)(NewParameter(adam, []float32{1, 2}))
	once := must[*Parameter[float32]](t)(NewParameter(adam, []float32{1, 2}))
	parameter, of := *original, original.Gradient()
	copy(of, gradient)
	batch := *must[*Batch](t)(NewBatch(original))
	updater := *must[*Updater[float32]](t)(NewUpdater[float32](adam))
	state := must[[]Slot](t)(updater.Initialize(gradient))

	original = nil
	for i := 0; i < 3; i++ { // the first of each is garbage, its copy is not
		finalize(t)
	}
	check(t, parameter.Update(gradient))
	check(t, batch.Update())
	check(t, updater.NextStep())
	check(t, updater.Apply([]float32{1, 2}, gradient, state))
	copy(parameter.Gradient(), []float32{3, 4})
	if of[0] != 3 {
		t.Fatal("a copy has a gradient of its own")
	}
	check(t, once.Update(gradient))
	check(t, once.Update(gradient))
	if got, want := must[[]float32](t)(parameter.Values()), must[[]float32](t)(once.Values()); !reflect.DeepEqual(got, want) {
		t.Fatal(got, want)
	}

	p, b, u := parameter, batch, updater
	for i := 0; i < 2; i++ {
		check(t, batch.Close())
		check(t, parameter.Close())
		check(t, updater.Close())
	}
	wants(t, p.Update(gradient), BadHandle, "closed")
	wants(t, b.Update(), BadHandle, "closed")
	wants(t, u.NextStep(), BadHandle, "closed")
	for i := 0; i < 2; i++ {
		check(t, p.Close())
		check(t, b.Close())
		check(t, u.Close())
	}
}

// What no constructor has made is refused by every call, and so is nil among parameters.
func TestZeroValues(t *testing.T) {
	var p Parameter[float32]
	var b Batch
	var u Updater[float32]
	var none *Parameter[float32]
	_, values := p.Values()
	_, row := p.Row(0)
	_, slots := p.Slots()
	_, clock := p.Clock()
	_, config := p.Config()
	_, average := p.Average()
	_, state := p.MarshalBinary()
	_, message := p.Compress(nil)
	_, initialized := u.Initialize([]float32{1})
	_, clockOfUpdater := u.Clock()
	_, configOfUpdater := u.Config()
	_, batch := NewBatch(&p)
	_, batchOfNil := NewBatch(none)
	_, batchOfNothing := NewBatch(nil, nil)
	path := filepath.Join(t.TempDir(), "x")
	for i, err := range []error{p.Update(nil), p.UpdateRows(nil, nil), p.Read(func([]float32) {}), p.RowsInto(nil), p.Flush(),
		p.Seek(Clock{}), p.ApplyAverage(), p.Restore(), p.SetValues(nil), p.Append(nil), p.Keep(nil), p.Permute(nil), p.Reset(), p.SetShape(), p.UnmarshalBinary(nil), p.Apply(nil), values, row, slots, clock, config, average,
		state, message, b.Update(), u.NextStep(), u.Apply(nil, nil, nil), u.WeightsSet(nil, nil), u.Seek(Clock{}), initialized, clockOfUpdater, configOfUpdater,
		batch, batchOfNil, batchOfNothing, SaveFile(path, map[string]AnyParameter{"w": none}),
		LoadFile(path, map[string]AnyParameter{"w": nil})} {
		t.Run(fmt.Sprint(i), func(t *testing.T) { wants(t, err, BadHandle, "zero value", "New") })
	}
	check(t, p.Close())
	check(t, b.Close())
	check(t, u.Close())
	if p.Gradient() != nil || p.Len() != 0 || p.Rows() != 0 || p.Width() != 0 {
		t.Fatal("a zero value has elements")
	}
}

// encoding/gob copies a parameter by MarshalBinary; JSON has no state, and no handle is written as {}.
func TestEncodings(t *testing.T) {
	p := must[*Parameter[float32]](t)(NewParameter(adam, []float32{1, 2}))
	check(t, p.Update([]float32{1, -1}))
	var buffer bytes.Buffer
	check(t, gob.NewEncoder(&buffer).Encode(p))
	sent := append([]byte(nil), buffer.Bytes()...)
	q := must[*Parameter[float32]](t)(NewParameter(adam, []float32{0, 0}))
	check(t, gob.NewDecoder(&buffer).Decode(q))
	if !reflect.DeepEqual(must[[]byte](t)(q.MarshalBinary()), must[[]byte](t)(p.MarshalBinary())) {
		t.Fatal("gob gave another state")
	}
	var zero Parameter[float32]
	wants(t, gob.NewDecoder(bytes.NewReader(sent)).Decode(&zero), BadHandle, "zero value", "NewParameter")

	u := must[*Updater[float32]](t)(NewUpdater[float32](adam))
	b := must[*Batch](t)(NewBatch(p))
	for _, handle := range []any{p, *p, b, *b, u, *u, map[string]any{"w": p}} {
		text, err := json.Marshal(handle)
		if err == nil {
			t.Fatalf("%T became %s", handle, text)
		}
		wants(t, err, BadValue, "JSON", "expected")
	}
	for _, handle := range []any{b, u} {
		if err := gob.NewEncoder(&buffer).Encode(handle); err == nil {
			t.Fatalf("gob has taken a %T", handle)
		}
	}
}

func TestStrings(t *testing.T) {
	p := must[*Parameter[float32]](t)(NewRows[float32](adam, 10, 3, nil))
	h := must[*Parameter[BFloat16]](t)(NewParameter(adam, []BFloat16{0, 0}))
	b := must[*Batch](t)(NewBatch(p, h))
	u := must[*Updater[float64]](t)(NewUpdater[float64](`{"rule": {"name": "momentum"}, "schedule": {"name": "constant", "rate": 1}}`))
	for _, each := range []struct {
		value any
		want  string
	}{
		{p, "gradstep.Parameter[float32]{rule: adam, rows: 10, width: 3}"},
		{*p, "gradstep.Parameter[float32]{rule: adam, rows: 10, width: 3}"},
		{h, "gradstep.Parameter[BFloat16]{rule: adam, rows: 1, width: 2}"},
		{b, "gradstep.Batch{2 parameters}"},
		{u, "gradstep.Updater[float64]{rule: momentum}"},
		{Parameter[int32]{}, "gradstep.Parameter[int32]{not made}"},
		{Batch{}, "gradstep.Batch{not made}"},
		{Updater[Float16]{}, "gradstep.Updater[Float16]{not made}"},
		{(*Parameter[float32])(nil), "<nil>"},
		{BadConfig, "BadConfig"},
		{InternalError, "InternalError"},
		{Code(0), "Code(0)"},
		{RateScale(0.5), "RateScale(0.5)"},
		{[]Option{GradientScale(2), Rate(1e-30), Samples(32), Epoch(7), ZeroGradient(), {}},
			"[GradientScale(2) Rate(1e-30) Samples(32) Epoch(7) ZeroGradient() Option{}]"},
		{Code(-99), "Code(-99)"},
	} {
		for _, verb := range []string{"%v", "%+v", "%s"} {
			if got := fmt.Sprintf(verb, each.value); got != each.want && each.want != "<nil>" || verb == "%v" && got != each.want {
				t.Errorf("%s: %s, want %s", verb, got, each.want)
			}
		}
	}
	check(t, b.Close())
	check(t, p.Close())
	check(t, u.Close())
	for _, each := range []fmt.Stringer{p, b, u} {
		if got := each.String(); !strings.HasSuffix(got, "closed}") {
			t.Error(got)
		}
	}
	if got := p.String(); got != "gradstep.Parameter[float32]{rule: adam, rows: 10, width: 3, closed}" {
		t.Error(got)
	}
}

// Every code of the header has its name.
func TestCodeNames(t *testing.T) {
	header, err := os.ReadFile("../../include/gradstep/c/gradstep.h")
	check(t, err)
	codes := regexp.MustCompile(`(?m)^    GRADSTEP_([A-Z_]+) = (-[0-9]+)`).FindAllStringSubmatch(string(header), -1)
	if len(codes) < 14 || len(codes) != len(codeNames) {
		t.Fatalf("the header has %d codes, the package %d", len(codes), len(codeNames))
	}
	for _, code := range codes {
		var number int
		if _, err := fmt.Sscan(code[2], &number); err != nil {
			t.Fatal(err)
		}
		if got := Code(number).String(); !strings.EqualFold(got, strings.ReplaceAll(code[1], "_", "")) {
			t.Errorf("GRADSTEP_%s is called %s", code[1], got)
		}
	}
}

// Texts that C would cut at a byte 0, or that no file can hold, are refused, and no file is written.
func TestTexts(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "model")
	p := must[*Parameter[float32]](t)(NewParameter(adam, []float32{1}))
	q := must[*Parameter[float32]](t)(NewParameter(adam, []float32{1}))
	before := must[[]byte](t)(p.MarshalBinary())
	for _, f := range []func(string, map[string]AnyParameter) error{SaveFile, LoadFile} {
		for _, bad := range []string{"\x00", "w\x00", "w\x00x", "w\xff", "\xc3", "\xed\xa0\x80"} {
			wants(t, f(path, map[string]AnyParameter{bad: p}), BadValue, "name", fmt.Sprintf("%q", bad))
			wants(t, f(path+bad, map[string]AnyParameter{"w": p}), BadValue, "path")
		}
	}
	for _, names := range [][]string{{"__metadata__"}, {"w", "w/m"}, {"w/m", "w"}} {
		err := SaveFile(path, map[string]AnyParameter{names[0]: p, names[len(names)-1]: q})
		wants(t, err, BadValue, names[0])
	}
	if files, err := os.ReadDir(folder); err != nil || len(files) != 0 {
		t.Fatal(files, err)
	}
	if !reflect.DeepEqual(must[[]byte](t)(p.MarshalBinary()), before) {
		t.Fatal("what was refused has changed something")
	}
	for _, bad := range []string{"\xff", "{\"rule\": {\"name\": \"ad\xffam\"}}", "{\"\x00\": 1}", adam + "\x00", adam + "\x00garbage"} {
		_, err := NewParameter(bad, []float32{1})
		wants(t, err, BadConfig)
		_, err = NewUpdater[float32](bad)
		wants(t, err, BadConfig)
		_, err = CanonicalConfig(bad)
		wants(t, err, BadConfig)
	}
}

// No elements, no rows, no gradients: a step of nothing, and counts that no memory has are refused.
func TestCounts(t *testing.T) {
	for _, shape := range [][2]int{{0, 0}, {0, 5}, {5, 0}, {1, 0}} {
		p := must[*Parameter[float32]](t)(NewRows(`{"rule": {"name": "adam"}, "average": {"name": "ema"}, "schedule": {"name": "constant", "rate": 1}}`,
			shape[0], shape[1], []float32{}))
		check(t, p.Update(nil))
		check(t, p.Update([]float32{}))
		check(t, p.UpdateRows(nil, nil))
		check(t, p.RowsInto(nil))
		check(t, must[*Batch](t)(NewBatch(p)).Update())
		average := must[any](t)(p.Average()).([]float32)
		slots := must[[]Slot](t)(p.Slots())
		if got := must[[]float32](t)(p.Values()); len(got)+len(average)+len(p.Gradient())+p.Len() != 0 || len(slots) != 3 {
			t.Fatal(shape, got, average, slots)
		}
		check(t, p.UnmarshalBinary(must[[]byte](t)(p.MarshalBinary())))
		wants(t, p.Update([]float32{1}), BadSize)
	}
	for _, shape := range [][2]int{{math.MaxInt, 1}, {1, math.MaxInt}, {math.MaxInt, math.MaxInt}, {1 << 32, 1 << 32}, {1 << 33, 1 << 31}} {
		p, err := NewRows[float32](adam, shape[0], shape[1], nil)
		var e *Error
		if !errors.As(err, &e) || e.Code != BadSize && e.Code != OutOfMemory || p != nil {
			t.Errorf("%d rows of width %d: %v", shape[0], shape[1], err)
		}
	}
	for _, shape := range [][2]int{{-1, 1}, {1, -1}, {math.MinInt, math.MinInt}} {
		_, err := NewRows[float32](adam, shape[0], shape[1], nil)
		wants(t, err, BadSize, fmt.Sprint(shape[0]))
	}
	u := must[*Updater[float32]](t)(NewUpdater[float32](adam))
	state := must[[]Slot](t)(u.Initialize(nil))
	check(t, u.NextStep())
	check(t, u.Apply(nil, []float32{}, state))
}

// A module follows docs/how_to/go.md, where no proxy answers.
func TestDocsBuildAModule(t *testing.T) {
	docs, err := os.ReadFile("../../docs/how_to/go.md")
	check(t, err)
	line := regexp.MustCompile("(?m)^go mod edit .*$").FindString(string(docs))
	here, err := os.Getwd()
	check(t, err)
	folder := t.TempDir()
	check(t, os.WriteFile(filepath.Join(folder, "main.go"),
		[]byte("package main\n\nimport \"gradstep.org/gradstep\"\n\nfunc main() { print(gradstep.Version()) }\n"), 0o600))
	var output []byte
	for _, arguments := range [][]string{{"mod", "init", "example.org/program"},
		strings.Fields(strings.ReplaceAll(line, "/path/to/gradstep/bindings/go", here))[1:], {"build", "-o", "program"}} {
		command := exec.Command(filepath.Join(runtime.GOROOT(), "bin", "go"), arguments...)
		command.Dir = folder
		command.Env = append(os.Environ(), "GOPROXY=http://127.0.0.1:1", "GOFLAGS=", "PWD="+folder)
		if output, err = command.CombinedOutput(); err != nil {
			t.Fatalf("go %v: %v\n%s", arguments, err, output)
		}
	}
	if output, err = exec.Command(filepath.Join(folder, "program")).CombinedOutput(); err != nil || string(output) != Version() {
		t.Fatalf("%v: %s", err, output)
	}
}

// Values that Read shows are there until it returns, also where its function wants to close the parameter, or panics.
func TestCloseWithinRead(t *testing.T) {
	p := must[*Parameter[float32]](t)(NewParameter(adam, []float32{1, 2}))
	check(t, p.Read(func(values []float32) {
		wants(t, p.Close(), BadSequence, "Read")
		check(t, p.Read(func(inner []float32) {
			if inner[1] != 2 {
				t.Error(inner)
			}
		}))
		wants(t, p.Close(), BadSequence, "Read")
		if values[1] != 2 {
			t.Error(values)
		}
	}))
	func() {
		defer func() { recover() }()
		check(t, p.Read(func([]float32) { panic("of the test") }))
	}()
	check(t, p.Close())
	wants(t, p.Flush(), BadHandle, "closed")
}

// Buffers of one call that overlap are refused, and nothing has changed.
func TestOverlaps(t *testing.T) {
	u := must[*Updater[float32]](t)(NewUpdater[float32](adam))
	all := values(40, math.Sin)
	w, g := all[:10], all[10:20]
	state := []Slot{{"m", all[20:30]}, {"v", all[30:40]}}
	check(t, u.NextStep())
	before := append([]float32(nil), all...)
	for i, each := range []func() error{
		func() error { return u.Apply(w, w, state) },
		func() error { return u.Apply(w, all[9:19], state) },
		func() error { return u.Apply(w, state[0].Values.([]float32), state) },
		func() error { return u.Apply(w, g, []Slot{state[0], {"v", state[0].Values}}) },
		func() error { return u.Apply(w, g, []Slot{{"m", w}, state[1]}) },
		func() error { return u.Apply(w, g, []Slot{{"m", all[21:31]}, state[1]}) },
	} {
		wants(t, each(), BadBuffer, "overlaps")
		if !reflect.DeepEqual(all, before) {
			t.Fatalf("call %d has changed something", i)
		}
	}
	check(t, u.Apply(w, g, state))
	p := must[*Parameter[float32]](t)(NewParameter(adam, w))
	q := *p
	check(t, p.Read(func(values []float32) { wants(t, p.Update(values), BadBuffer, "overlaps") }))
	twice := must[*Batch](t)(NewBatch(p, &q))
	state0 := must[[]byte](t)(p.MarshalBinary())
	if err := twice.Update(); err == nil || !reflect.DeepEqual(must[[]byte](t)(p.MarshalBinary()), state0) {
		t.Fatal(err)
	}
}

func TestConfigIsComplete(t *testing.T) {
	p := must[*Parameter[float32]](t)(NewParameter(adam, []float32{1}))
	config := must[string](t)(p.Config())
	if !strings.Contains(config, `"beta2"`) || must[string](t)(CanonicalConfig(config)) != config {
		t.Fatal(config)
	}
	u := must[*Updater[float32]](t)(NewUpdater[float32](config))
	if got := must[string](t)(u.Config()); got != config {
		t.Fatalf("%s\n%s", got, config)
	}
	_, err := CanonicalConfig(`{"oops": 1}`)
	wants(t, err, BadConfig, "oops")
	if Version() == "" || SIMDLevel() == "" {
		t.Fatal("the library does not say what it is")
	}
}

func TestAverage(t *testing.T) {
	const config = `{"rule": {"name": "sgd"}, "average": {"name": "polyak"}, "schedule": {"name": "constant", "rate": 1}}`
	p := must[*Parameter[float32]](t)(NewParameter(config, []float32{0, 0}))
	for i := 0; i < 3; i++ {
		check(t, p.Update([]float32{-1, -2}))
	}
	average := must[any](t)(p.Average()).([]float32)
	near(t, average, []float64{2, 4}) // of 1, 2, 3
	check(t, p.ApplyAverage())
	near(t, must[[]float32](t)(p.Values()), []float64{2, 4})
	check(t, p.Restore())
	near(t, must[[]float32](t)(p.Values()), []float64{3, 6})
	_, err := NewParameter(strings.Replace(config, "sgd", "adam", 1), []float64{0})
	wants(t, err, NotCompiled, "average polyak", "float64")
}

// A run in two halves, through bytes and through a file, gives the bits of one run.
func TestResume(t *testing.T) {
	run := func(p *Parameter[float32], steps int) {
		for i := 0; i < steps; i++ {
			now := must[Clock](t)(p.Clock())
			check(t, p.Update(values(50, func(i float64) float64 { return math.Sin(i * float64(now.Step)) })))
		}
	}
	start := func() *Parameter[float32] {
		return must[*Parameter[float32]](t)(NewParameter(adam, values(50, math.Cos)))
	}
	once := start()
	run(once, 20)
	want := must[[]byte](t)(once.MarshalBinary())

	first := start()
	run(first, 10)
	path := filepath.Join(t.TempDir(), "model.safetensors")
	check(t, SaveFile(path, map[string]AnyParameter{"w": first, "b": start()}))

	second := start()
	check(t, second.UnmarshalBinary(must[[]byte](t)(first.MarshalBinary())))
	run(second, 10)
	if !reflect.DeepEqual(must[[]byte](t)(second.MarshalBinary()), want) {
		t.Fatal("through bytes: other bits")
	}
	third := start()
	check(t, LoadFile(path, map[string]AnyParameter{"b": start(), "w": third}))
	run(third, 10)
	if !reflect.DeepEqual(must[[]byte](t)(third.MarshalBinary()), want) {
		t.Fatal("through a file: other bits")
	}
	wants(t, LoadFile(path+".not", map[string]AnyParameter{"w": third}), IOError, path)
	if err := LoadFile(path+".not", map[string]AnyParameter{"w": third}); !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err, errors.Unwrap(err))
	}
	if err := SaveFile(filepath.Join(path+".not", "x"), map[string]AnyParameter{"w": third}); !errors.Is(err, fs.ErrNotExist) ||
		!errors.Is(err, &Error{Code: IOError}) {
		t.Fatal(err, errors.Unwrap(err))
	}
	err := LoadFile(path, map[string]AnyParameter{"w": third, "other": start()})
	wants(t, err, BadValue, "other")
	wants(t, SaveFile(path, map[string]AnyParameter{"w\x00": third}), BadValue, "byte 0")
	check(t, os.WriteFile(path, []byte("short"), 0o600))
	if LoadFile(path, map[string]AnyParameter{"w": third}) == nil {
		t.Fatal("a file of 5 bytes was loaded")
	}
	if !reflect.DeepEqual(must[[]byte](t)(third.MarshalBinary()), want) {
		t.Fatal("a file that was refused has changed something")
	}
}

// A load takes a part of a file, or other names or numbers of rows, and says so; what it refuses changes nothing.
func TestPartialLoads(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.safetensors")
	type parameters = map[string]AnyParameter
	table := func(rows int, start float64) *Parameter[float32] {
		return must[*Parameter[float32]](t)(NewRows(adam, rows, 3, values(3*rows, func(i float64) float64 { return start + i })))
	}
	vector := func(start float64) *Parameter[float32] {
		return must[*Parameter[float32]](t)(NewParameter(adam, values(5, func(i float64) float64 { return start + i })))
	}
	state := func(p *Parameter[float32]) []byte { return must[[]byte](t)(p.MarshalBinary()) }
	saved, words := vector(1), table(4, 2)
	for i := 0; i < 3; i++ {
		check(t, saved.Update(values(5, math.Sin)))
		check(t, words.Update(values(12, math.Cos)))
	}
	check(t, SaveFile(path, parameters{"model.w": saved, "words": words}))
	if names := must[[]string](t)(FileNames(path)); !reflect.DeepEqual(names, []string{"model.w", "words"}) {
		t.Fatal(names)
	}

	// The default is LoadFile.
	first, second := vector(7), table(4, 7)
	report := must[LoadReport](t)(LoadFileWith(path, parameters{"model.w": first, "words": second}, LoadOptions{}))
	if !reflect.DeepEqual(report, LoadReport{Loaded: []string{"model.w", "words"}}) {
		t.Fatalf("%+v", report)
	}
	if !reflect.DeepEqual(state(first), state(saved)) || !reflect.DeepEqual(state(second), state(words)) {
		t.Fatal("a load has given another state")
	}

	// Each option allows what is refused without it.
	w, head, longer := vector(8), vector(9), table(6, 10)
	all := parameters{"w": w, "head": head, "words": longer}
	renamed := strings.NewReplacer("model.", "").Replace
	before := [][]byte{state(w), state(head), state(longer)}
	for _, each := range []struct {
		options LoadOptions
		parts   []string
	}{
		{LoadOptions{}, []string{`"`}},
		{LoadOptions{IgnoreUnexpected: true, ResizeRows: true, Rename: renamed}, []string{"head"}},
		{LoadOptions{KeepMissing: true, ResizeRows: true}, []string{"model.w"}},
		{LoadOptions{KeepMissing: true, IgnoreUnexpected: true, Rename: renamed}, []string{"words"}},
		{LoadOptions{KeepMissing: true, IgnoreUnexpected: true, ResizeRows: true, Rename: func(string) string { return "w" }}, []string{"w"}},
		{LoadOptions{KeepMissing: true, Rename: func(string) string { return "w\x00" }}, []string{"Rename", "byte 0"}},
		{LoadOptions{KeepMissing: true, Rename: func(string) string { return "\xff" }}, []string{"Rename", "UTF-8"}},
	} {
		report, err := LoadFileWith(path, all, each.options)
		var e *Error
		if !errors.As(err, &e) || !reflect.DeepEqual(report, LoadReport{}) {
			t.Fatalf("%+v: %v, %+v", each.options, err, report)
		}
		wants(t, err, e.Code, each.parts...)
		if !reflect.DeepEqual(before, [][]byte{state(w), state(head), state(longer)}) {
			t.Fatalf("%v has changed something", err)
		}
	}
	report = must[LoadReport](t)(LoadFileWith(path, all, LoadOptions{KeepMissing: true, ResizeRows: true, Rename: renamed}))
	if !reflect.DeepEqual(report, LoadReport{Loaded: []string{"w"}, Resized: []string{"words"}, Kept: []string{"head"}}) {
		t.Fatalf("%+v", report)
	}
	if !reflect.DeepEqual(state(w), state(saved)) || !reflect.DeepEqual(state(head), before[1]) {
		t.Fatal("a load has given another state")
	}
	for id := int64(0); id < 6; id++ { // the rows of the file with their state, the further ones as they were
		want := []float32{10 + 3*float32(id), 11 + 3*float32(id), 12 + 3*float32(id)}
		if id < 4 {
			want = must[[]float32](t)(words.Row(id))
		}
		if got := must[[]float32](t)(longer.Row(id)); !reflect.DeepEqual(got, want) {
			t.Fatalf("row %d is %v, want %v", id, got, want)
		}
	}
	m, of := must[[]Slot](t)(longer.Slots())[0].Values.([]float32), must[[]Slot](t)(words.Slots())[0].Values.([]float32)
	if !reflect.DeepEqual(m[:12], of) || !reflect.DeepEqual(m[12:], make([]float32, 6)) {
		t.Fatal(m, of)
	}

	shorter := table(2, 0)
	report = must[LoadReport](t)(LoadFileWith(path, parameters{"words": shorter}, LoadOptions{IgnoreUnexpected: true, ResizeRows: true}))
	if !reflect.DeepEqual(report, LoadReport{Resized: []string{"words"}, Ignored: []string{"model.w"}}) {
		t.Fatalf("%+v", report)
	}
	if got, want := must[[]float32](t)(shorter.Values()), must[[]float32](t)(words.Values())[:6]; !reflect.DeepEqual(got, want) {
		t.Fatal(got, want)
	}
	report = must[LoadReport](t)(LoadFileWith(path, nil, LoadOptions{IgnoreUnexpected: true}))
	if !reflect.DeepEqual(report.Ignored, []string{"model.w", "words"}) {
		t.Fatalf("%+v", report)
	}
	for _, missing := range []func(string) error{
		func(path string) error { _, err := FileNames(path); return err },
		func(path string) error { _, err := LoadFileWith(path, all, LoadOptions{KeepMissing: true}); return err },
	} {
		if err := missing(path + ".not"); !errors.Is(err, fs.ErrNotExist) || !errors.Is(err, &Error{Code: IOError}) {
			t.Fatal(err)
		}
		wants(t, missing(path+"\x00"), BadValue, "byte 0")
	}
}

// Files and states carry shapes, and a parameter refuses another shape.
func TestShapes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x")
	rows := func(rows, width int) *Parameter[float32] {
		return must[*Parameter[float32]](t)(NewRows[float32](adam, rows, width, nil))
	}
	check(t, SaveFile(path, map[string]AnyParameter{"w": rows(2, 6)}))
	blob := must[[]byte](t)(rows(2, 6).MarshalBinary())
	for _, other := range [][2]int{{6, 2}, {3, 4}, {4, 3}} {
		p := rows(other[0], other[1])
		wants(t, LoadFile(path, map[string]AnyParameter{"w": p}), BadSize)
		wants(t, p.UnmarshalBinary(blob), BadSize)
	}
	p := rows(2, 6)
	check(t, p.SetShape(2, 3, 2))
	wants(t, LoadFile(path, map[string]AnyParameter{"w": p}), BadSize)
	check(t, SaveFile(path, map[string]AnyParameter{"w": p}))
	wants(t, LoadFile(path, map[string]AnyParameter{"w": rows(2, 6)}), BadSize)
	check(t, LoadFile(path, map[string]AnyParameter{"w": p}))
	wants(t, p.SetShape(2, 5), BadSize)
	wants(t, p.SetShape(-2, -6), BadSize, "-2")
	wants(t, p.SetShape(), BadSize)
	check(t, must[*Parameter[float32]](t)(NewParameter(adam, []float32{1})).SetShape())
}

// Different handles in different goroutines, and one step that several apply, under the race detector.
func TestGoroutines(t *testing.T) {
	const n = 300
	optimizer := must[*Updater[float32]](t)(NewUpdater[float32](adam))
	check(t, optimizer.NextStep())
	var wait sync.WaitGroup
	results := make([][]float32, 8)
	for k := range results {
		wait.Add(1)
		go func(k int) {
			defer wait.Done()
			p, err := NewParameter(adam, values(n, math.Sin))
			if err != nil {
				t.Error(err)
				return
			}
			defer p.Close()
			w := values(n, math.Sin)
			state, err := optimizer.Initialize(w)
			if err == nil {
				err = optimizer.Apply(w, values(n, math.Cos), state)
			}
			if err == nil {
				err = p.Update(values(n, math.Cos))
			}
			if err == nil {
				results[k], err = p.Values()
			}
			if err != nil {
				t.Error(err)
			}
			if !reflect.DeepEqual(w, results[k]) {
				t.Error("the updater gave other bits")
			}
			if err := p.Update(w[1:]); !errors.Is(err, &Error{Code: BadSize}) {
				t.Error(err)
			}
		}(k)
	}
	wait.Wait()
	for k := range results {
		if !reflect.DeepEqual(results[k], results[0]) {
			t.Fatalf("goroutine %d has other bits", k)
		}
	}
}

// Garbage is released while other parameters are in use; what a call uses is not garbage before it returns.
func TestFinalizers(t *testing.T) {
	before := resident(t)
	for i := 0; i < 200; i++ {
		p := must[*Parameter[float32]](t)(NewParameter(adam, make([]float32, 1<<18))) // 3 MB of the library's
		batch := must[*Batch](t)(NewBatch(p))                                         // and 1 MB
		check(t, batch.Update())
		if i%10 == 9 {
			finalize(t) // the batch, which keeps the parameter
			finalize(t) // the parameter
			finalize(t) // whatever was still waiting
		}
	}
	if after := resident(t); after-before > 300<<20 { // of 800 MB; 40 MB live at a time
		t.Fatalf("%d MB are not released", (after-before)>>20)
	}
}

// finalize runs the garbage collector, and waits until a finalizer of that collection has run. Finalizers run one after the other on
// a separate goroutine, after runtime.GC has returned. So all finalizers of the collection before have run.
func finalize(t *testing.T) {
	t.Helper()
	done := make(chan struct{})
	runtime.SetFinalizer(&struct{ pointer *int }{new(int)}, func(any) { close(done) })
	runtime.GC()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatal("finalizers do not run")
	}
}

func resident(t *testing.T) int {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Skip("there is no /proc/self/statm")
	}
	var size, pages int
	if _, err := fmt.Sscan(string(text), &size, &pages); err != nil {
		t.Fatal(err)
	}
	return pages * os.Getpagesize()
}

// A step allocates nothing, so that it brings no garbage collection near.
func TestStepsAllocateNothing(t *testing.T) {
	gradient := make([]float32, 100)
	p := must[*Parameter[float32]](t)(NewParameter(adam, gradient))
	batch := must[*Batch](t)(NewBatch(p))
	for name, step := range map[string]func(){
		"Update":               func() { check(t, p.Update(gradient)) },
		"Update, with options": func() { check(t, p.Update(gradient, RateScale(0.5), Samples(3))) },
		"Batch.Update":         func() { check(t, batch.Update()) },
	} {
		if n := testing.AllocsPerRun(100, step); n != 0 {
			t.Errorf("%s allocates %v times", name, n)
		}
	}
}

// BenchmarkCrossing is what a call costs, of 16 floats each, so that there is little else.
func BenchmarkCrossing(b *testing.B) {
	gradient := make([]float32, 16)
	p := must[*Parameter[float32]](b)(NewParameter(adam, gradient))
	for i := 0; i < b.N; i++ {
		check(b, p.Update(gradient))
	}
}

// BenchmarkThousand is one step of 1000 parameters of 1000 floats, in one call and in a thousand.
func BenchmarkThousand(b *testing.B) {
	parameters, single := make([]AnyParameter, 1000), make([]*Parameter[float32], 1000)
	for i := range parameters {
		single[i] = must[*Parameter[float32]](b)(NewParameter(adam, make([]float32, 1000)))
		parameters[i] = single[i]
		for j, gradient := 0, single[i].Gradient(); j < len(gradient); j++ {
			gradient[j] = float32(j%7) - 3
		}
	}
	batch := must[*Batch](b)(NewBatch(parameters...))
	b.Run("batched", func(b *testing.B) {
		for i := 0; i < b.N; i++ {
			check(b, batch.Update())
		}
	})
	b.Run("single", func(b *testing.B) {
		for i := 0; i < b.N; i++ {
			for _, p := range single {
				check(b, p.Update(p.Gradient()))
			}
		}
	})
	decoded := make([]float32, 1000*1000)
	b.Run("batched, gradients copied from Go", func(b *testing.B) {
		for i := 0; i < b.N; i++ {
			for j, p := range single {
				copy(p.Gradient(), decoded[j*1000:])
			}
			check(b, batch.Update())
		}
	})
}
