package gradstep

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
)

const (
	sgd = `"rule": {"name": "sgd"}, "schedule": {"name": "constant", "rate": 1}`
	// Inactive rows get pending steps: their decay.
	decayed = `"rule": {"name": "adagrad"}, "regularizer": {"name": "decoupled", "rate": 0.25}, "catch_up": "exact",
		"schedule": {"name": "constant", "rate": 0.125}`
)

// tableOf makes a table of float32 with keys of an optimizer, and keys in "table".
func tableOf[I ID](t testing.TB, optimizer, table string) *Table[float32, I] {
	t.Helper()
	return must[*Table[float32, I]](t)(NewTable[float32, I](`{` + optimizer + `, "table": {` + table + `}}`))
}

func rowsOf[I ID](t testing.TB, table *Table[float32, I]) []float32 {
	t.Helper()
	info := must[TableInfo](t)(table.Info())
	ids, out := make([]I, info.Rows), make([]float32, info.Rows*info.Width)
	for i := range ids {
		ids[i] = I(i)
	}
	check(t, table.RowsInto(out, ids...))
	return out
}

func equal(t testing.TB, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("got %v, want %v", got, want)
	}
}

// A table has the bits of a parameter with rows, for every type of ids.
func TestTableIsAParameter(t *testing.T) {
	t.Run("int32", tableIsAParameter[int32])
	t.Run("int64", tableIsAParameter[int64])
	t.Run("uint64", tableIsAParameter[uint64])
}

func tableIsAParameter[I ID](t *testing.T) {
	const rows, width = 10, 3
	table := tableOf[I](t, decayed, `"rows": 10, "width": 3, "initial": 0.5`)
	p := must[*Parameter[float32]](t)(NewRows(`{`+decayed+`}`, rows, width, values(rows*width, func(float64) float64 { return 0.5 })))
	for step := int64(0); step < 20; step++ {
		ids := []int64{step % rows, 3, step * 7 % rows, 3} // duplicates: the sum
		own := make([]I, len(ids))
		for i, id := range ids {
			own[i] = I(id)
		}
		gradients := values(len(ids)*width, func(i float64) float64 { return math.Sin(i * float64(step+1)) })
		check(t, table.Update(own, gradients, RateScale(0.5), Samples(4)))
		check(t, p.UpdateRows(ids, gradients, RateScale(0.5), Samples(4)))
	}
	equal(t, rowsOf(t, table), must[[]float32](t)(p.Values()))
	equal(t, must[[]float32](t)(table.Row(3)), must[[]float32](t)(p.Row(3)))
	equal(t, must[Clock](t)(table.Clock()), Clock{Step: 20, Samples: 80})
	check(t, table.Flush())
	equal(t, must[TableInfo](t)(table.Info()), TableInfo{Rows: rows, Width: width})
	check(t, table.Update(nil, nil))
	check(t, table.RowsInto(nil))
}

// Every element is written to and read from the slices of a table.
func TestTableElements(t *testing.T) {
	t.Run("float64", func(t *testing.T) { tableAddsOne(t, adds[float64]{"float64", 2, 1, 3}) })
	t.Run("BFloat16", func(t *testing.T) { tableAddsOne(t, adds[BFloat16]{"bfloat16", 0x4000, 0x3f80, 0x4040}) })
	t.Run("Float16", func(t *testing.T) { tableAddsOne(t, adds[Float16]{"float16", 0x4000, 0x3c00, 0x4200}) })
	t.Run("int32", func(t *testing.T) { tableAddsOne(t, adds[int32]{"int32", -2, 1, -1}) })
	t.Run("int64", func(t *testing.T) { tableAddsOne(t, adds[int64]{"int64", 1 << 40, 1, 1<<40 + 1}) })
	t.Run("uint32", func(t *testing.T) { tableAddsOne(t, adds[uint32]{"uint32", math.MaxUint32, 2, 1}) })
	t.Run("uint64", func(t *testing.T) { tableAddsOne(t, adds[uint64]{"uint64", 1 << 63, 1, 1<<63 + 1}) })
}

func tableAddsOne[T Element](t *testing.T, a adds[T]) {
	table := must[*Table[T, int64]](t)(NewTable[T, int64](`{"rule": {"name": "add_delta"},
		"schedule": {"name": "constant", "rate": 1}, "type": "` + a.config + `", "table": {"rows": 2, "width": 1}}`))
	check(t, table.SetRows([]int64{1}, []T{a.from}))
	check(t, table.Update([]int64{1}, []T{a.by}))
	equal(t, must[[]T](t)(table.Row(1)), []T{a.want})
}

// A step of bags is a step of the expanded ids.
func TestTableBags(t *testing.T) {
	const keys = `"rows": 6, "width": 2, "ignore_id": 5`
	bags, expanded := tableOf[int64](t, sgd, keys), tableOf[int64](t, sgd, keys)
	gradients := []float32{1, 2, 3, 4, 5, 6}
	three := Bags[int64]{IDs: []int64{0, 3, 5, 3}, Offsets: []int64{0, 2, 2}} // bag 1 is empty, and 5 is padding
	check(t, bags.UpdateBags(three, gradients, Samples(3)))
	check(t, expanded.Update([]int64{0, 3, 5, 3}, []float32{1, 2, 1, 2, 5, 6, 5, 6}, Samples(3)))
	equal(t, rowsOf(t, bags), rowsOf(t, expanded))
	equal(t, rowsOf(t, bags), []float32{-1, -2, 0, 0, 0, 0, -6, -8, 0, 0, 0, 0})
	before := rowsOf(t, bags)
	wants(t, bags.UpdateBags(Bags[int64]{IDs: []int64{0, 3}, Offsets: []int64{1}}, gradients[:2]), BadValue, "offsets")
	wants(t, bags.UpdateBags(Bags[int64]{IDs: []int64{0, 3}, Offsets: []int64{0}}, gradients), BadSize)
	weighted := three
	weighted.Weights = []float32{1, 2}
	wants(t, bags.UpdateBags(weighted, gradients), BadSize, "weights")
	weighted.Weights = []float64{1, 2, 3, 4}
	wants(t, bags.UpdateBags(weighted, gradients), UnsupportedType, "float32")
	out := make([]float32, 6)
	wants(t, bags.BagsInto(out, weighted), UnsupportedType, "float32")
	wants(t, bags.BagsInto(out[:5], three), BadSize)
	equal(t, rowsOf(t, bags), before)

	check(t, bags.BagsInto(out, three))
	equal(t, out, []float32{-7, -10, 0, 0, -6, -8})
	weighted.Weights, weighted.Mean = []float32{2, 4, 9, 0.5}, true
	check(t, bags.BagsInto(out, weighted))
	equal(t, out, []float32{-13, -18, 0, 0, -3, -4})
	check(t, bags.UpdateBags(weighted, gradients))
	equal(t, rowsOf(t, bags), []float32{-2, -4, 0, 0, 0, 0, -10.5, -15, 0, 0, 0, 0})
	doubles := must[*Table[float64, int64]](t)(NewTable[float64, int64](`{` + sgd + `, "type": "float64", "table": {"rows": 6, "width": 1}}`))
	two := Bags[int64]{IDs: []int64{1, 1}, Offsets: []int64{0}, Weights: []float64{0.5, 0.25}}
	check(t, doubles.UpdateBags(two, []float64{4}))
	equal(t, must[[]float64](t)(doubles.Row(1)), []float64{-3})
}

func TestTableOptions(t *testing.T) {
	mean := tableOf[int32](t, sgd, `"rows": 2, "width": 1, "duplicates": "mean"`)
	check(t, mean.Update([]int32{1, 1, 0, 1}, []float32{1, 2, 7, 6}))
	equal(t, rowsOf(t, mean), []float32{-7, -3})
	unique := tableOf[int32](t, sgd, `"rows": 2, "width": 1, "duplicates": "unique"`)
	wants(t, unique.Update([]int32{1, 1}, []float32{1, 2}), BadValue, "ids[1]", "distinct")
	limited := tableOf[int32](t, sgd, `"rows": 2, "width": 2, "max_norm": 1`)
	check(t, limited.Update([]int32{0, 1}, []float32{-3, -4, -0.25, 0}))
	row := must[[]float32](t)(limited.Row(0))
	if norm := math.Hypot(float64(row[0]), float64(row[1])); math.Abs(norm-1) > 1e-6 {
		t.Fatal(row)
	}
	equal(t, must[[]float32](t)(limited.Row(1)), []float32{0.25, 0})
	skips := tableOf[int32](t, sgd+`, "on_nonfinite": "skip"`, `"rows": 2, "width": 1`)
	check(t, skips.Update([]int32{0, 1}, []float32{float32(math.NaN()), 1}))
	equal(t, rowsOf(t, skips), []float32{0, -1})
	equal(t, must[TableInfo](t)(skips.Info()).Skipped, int64(1))
}

// Goroutines that update one table lose no gradient while other calls run. The race detector watches.
func TestConcurrentTable(t *testing.T) {
	const goroutines, steps, rows, width = 8, 50, 20, 4
	table := tableOf[int64](t, sgd, `"rows": 20, "width": 4, "concurrent": true`)
	if !must[TableInfo](t)(table.Info()).Concurrent {
		t.Fatal("the table is not concurrent")
	}
	ones := values(3*width, func(float64) float64 { return -1 })
	var wait sync.WaitGroup
	for k := int64(0); k < goroutines; k++ {
		wait.Add(1)
		go func(k int64) {
			defer wait.Done()
			out := make([]float32, width)
			for step := int64(0); step < steps; step++ {
				ids, err := []int64{k, (k + step) % rows, rows - 1}, error(nil)
				if k%2 == 0 {
					err = table.Update(ids, ones, Samples(1))
				} else {
					err = table.UpdateBags(Bags[int64]{IDs: ids, Offsets: []int64{0}}, ones[:width], Samples(1))
				}
				if err == nil {
					err = table.RowsInto(out, rows-1)
				}
				if err == nil && out[0] != out[width-1] {
					err = fmt.Errorf("a row in the middle of a step: %v", out)
				}
				if err == nil && step%10 == 0 {
					_, err = table.MarshalBinary()
				}
				if err == nil && step%10 == 5 {
					_, err = table.Config()
				}
				if err := table.Update(ids[:1], ones); !errors.Is(err, &Error{Code: BadSize}) {
					t.Error(err)
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		}(k)
	}
	wait.Wait()
	sum := float32(0)
	for _, x := range rowsOf(t, table) {
		sum += x
	}
	equal(t, sum, float32(3*width*goroutines*steps))
	equal(t, must[Clock](t)(table.Clock()), Clock{Step: goroutines * steps, Samples: goroutines * steps})
	_, err := NewTable[float32, int64](strings.Replace(adam, `{`, `{"catch_up": {"name": "replay", "max_steps": 5},
		"table": {"rows": 1, "width": 1, "concurrent": true}, `, 1))
	wants(t, err, BadConfig, "table.concurrent", "replay")
}

func TestAveragesOfATable(t *testing.T) {
	table := tableOf[int64](t, sgd+`, "average": {"name": "ema", "decay": 0.5}`, `"rows": 3, "width": 1`)
	for i := 0; i < 3; i++ {
		check(t, table.Update([]int64{1, 2}, []float32{-1, -2}))
	}
	equal(t, must[any](t)(table.Averages(2, 1)), any([]float32{4.25, 2.125})) // of 2, 4, 6 and of 1, 2, 3, from 0
	check(t, table.ApplyAverage())
	equal(t, rowsOf(t, table), []float32{0, 2.125, 4.25})
	wants(t, table.Update([]int64{1}, []float32{1}), BadSequence)
	check(t, table.Restore())
	equal(t, rowsOf(t, table), []float32{0, 3, 6})
	_, err := tableOf[int64](t, sgd, `"rows": 3, "width": 1`).Averages(1)
	wants(t, err, BadValue, "average")
}

// Rows that are added, removed and put in another order take their state with them; rows that are reset begin anew.
func TestChangingRowsOfATable(t *testing.T) {
	table := tableOf[uint64](t, `"rule": {"name": "momentum"}, "schedule": {"name": "constant", "rate": 1}`,
		`"rows": 1, "width": 2, "initial": 1`)
	check(t, table.Grow(2))
	check(t, table.Append([]float32{7, 7}))
	check(t, table.SetRows([]uint64{1}, []float32{5, 5}))
	check(t, table.Update([]uint64{0, 1, 2}, []float32{0, 0, 1, 1, 2, 2}))
	equal(t, rowsOf(t, table), []float32{1, 1, 4, 4, 5, 5})
	check(t, table.Permute([]uint64{2, 0, 1}))
	check(t, table.Keep([]bool{true, false, true}))
	equal(t, rowsOf(t, table), []float32{5, 5, 4, 4})
	check(t, table.Reset(1))
	check(t, table.Update([]uint64{0, 1}, make([]float32, 4)))
	equal(t, rowsOf(t, table), []float32{3.2, 3.2, 1, 1}) // 5 - 0.9 * 2
	config := must[string](t)(table.Config())
	if !strings.Contains(config, `"rows":2`) {
		t.Fatal(config)
	}
	for _, err := range []error{table.Grow(1), table.Grow(-1), table.Permute([]uint64{1, 1}), table.Reset(2),
		table.SetRows([]uint64{2}, []float32{1, 1})} {
		wants(t, err, BadValue)
	}
	for _, err := range []error{table.Append([]float32{1}), table.Keep([]bool{true}), table.SetRows([]uint64{1}, []float32{1})} {
		wants(t, err, BadSize)
	}
	equal(t, rowsOf(t, table), []float32{3.2, 3.2, 1, 1})
}

// Inactive rows get the decay and the moments of the steps that they missed.
func TestRowsCatchUp(t *testing.T) {
	exact := tableOf[int64](t, `"rule": {"name": "sgd"}, "regularizer": {"name": "decoupled", "rate": 0.5}, "catch_up": "exact",
		"schedule": {"name": "constant", "rate": 0.5}`, `"rows": 3, "width": 1, "initial": 1`)
	const moments = `"rule": {"name": "adam"}, "schedule": {"name": "constant", "rate": 0.125}`
	replay := tableOf[int64](t, moments+`, "catch_up": {"name": "replay", "max_steps": 9}`, `"rows": 2, "width": 1`)
	dense := must[*Parameter[float32]](t)(NewRows[float32](`{`+moments+`}`, 2, 1, nil))
	check(t, replay.Update([]int64{1}, []float32{1}))
	check(t, dense.Update([]float32{0, 1}))
	for i := 0; i < 3; i++ {
		check(t, exact.Update([]int64{0}, []float32{0}))
		check(t, replay.Update([]int64{0}, []float32{1}))
		check(t, dense.Update([]float32{1, 0}))
	}
	equal(t, must[[]float32](t)(exact.Row(2)), []float32{0.75 * 0.75 * 0.75})
	row := must[[]float32](t)(dense.Row(1))[0]
	near(t, must[[]float32](t)(replay.Row(1)), []float64{float64(row)})
}

// A run in two halves, through bytes and through files, has the bits of one run.
func TestResumeATable(t *testing.T) {
	start := func() *Table[float32, int64] {
		return tableOf[int64](t, decayed,
			`"rows": 30, "width": 2, "initial": {"name": "normal", "mean": 0, "deviation": 0.5, "seed": 3}`)
	}
	run := func(table *Table[float32, int64]) {
		for i := 0; i < 10; i++ {
			step := must[Clock](t)(table.Clock()).Step
			check(t, table.Update([]int64{step % 30, step * 7 % 30}, values(4, func(i float64) float64 { return math.Sin(i + float64(step)) })))
		}
	}
	once := start()
	run(once)
	run(once)
	want := must[[]byte](t)(once.MarshalBinary())

	first := start()
	run(first)
	path := filepath.Join(t.TempDir(), "table.safetensors")
	check(t, first.SaveFile(path))
	equal(t, must[[]string](t)(FileNames(path)), []string{nameOfTable})
	for name, load := range map[string]func(*Table[float32, int64]) error{
		"bytes": func(table *Table[float32, int64]) error {
			return table.UnmarshalBinary(must[[]byte](t)(first.MarshalBinary()))
		},
		"a file": func(table *Table[float32, int64]) error { return table.LoadFile(path) },
		"a file, with options": func(table *Table[float32, int64]) error {
			report, err := table.LoadFileWith(path, LoadOptions{})
			equal(t, report, LoadReport{Loaded: []string{nameOfTable}})
			return err
		},
	} {
		second := start()
		check(t, load(second))
		run(second)
		if !reflect.DeepEqual(must[[]byte](t)(second.MarshalBinary()), want) {
			t.Fatalf("through %s: other bits", name)
		}
	}

	before := must[[]byte](t)(first.MarshalBinary())
	if err := first.LoadFile(path + ".not"); !errors.Is(err, fs.ErrNotExist) || !errors.Is(err, &Error{Code: IOError}) {
		t.Fatal(err)
	}
	wants(t, first.SaveFile(path+"\x00"), BadValue, "byte 0")
	wants(t, first.UnmarshalBinary(nil), BadValue)
	wants(t, first.UnmarshalBinary(want[:len(want)-1]), BadValue)
	equal(t, must[[]byte](t)(first.MarshalBinary()), before)
}

// A load with options maps names and says what it did; a table with fewer rows than the file grows.
func TestLoadATableWithOptions(t *testing.T) {
	path := filepath.Join(t.TempDir(), "words.safetensors")
	saved, table := tableOf[int64](t, decayed, `"rows": 4, "width": 2`), tableOf[int64](t, decayed, `"rows": 2, "width": 2, "initial": 3`)
	check(t, saved.Update([]int64{1, 3}, values(4, math.Cos)))
	check(t, saved.SaveFile(path))
	other := strings.NewReplacer("values", "words").Replace
	before := rowsOf(t, table)
	for _, less := range []LoadOptions{{Rename: other}, {Rename: other, KeepMissing: true}} {
		if _, err := table.LoadFileWith(path, less); err == nil {
			t.Fatalf("%+v loaded the file", less)
		}
		equal(t, rowsOf(t, table), before)
	}
	report := must[LoadReport](t)(table.LoadFileWith(path, LoadOptions{Rename: other, KeepMissing: true, IgnoreUnexpected: true}))
	equal(t, report, LoadReport{Kept: []string{"values"}, Ignored: []string{"values"}})
	equal(t, rowsOf(t, table), before)
	report = must[LoadReport](t)(table.LoadFileWith(path, LoadOptions{}))
	equal(t, report, LoadReport{Loaded: []string{"values"}})
	equal(t, rowsOf(t, table), rowsOf(t, saved))
	check(t, table.Grow(5))
	wants(t, table.LoadFile(path), BadSize, "4 rows", "5 of the table")
	p := must[*Parameter[float32]](t)(NewParameter(adam, []float32{1}))
	check(t, SaveFile(path, map[string]AnyParameter{"values": p}))
	wants(t, table.LoadFile(path), BadValue, "values")
}

func TestRefusalsOfATable(t *testing.T) {
	for config, parts := range map[string][]string{
		`{` + sgd + `}`:                                         {"table"},
		`{` + sgd + `, "table": {"rows": 1}}`:                   {"table.width"},
		`{` + sgd + `, "table": {"row": 1, "width": 1}}`:        {"row", "rows"},
		`{` + sgd + `, "type": "int5", "table": {}}`:            {"type", "int5"},
		strings.Replace(adam, "adam", "no such rule", 1):        {"no such rule"},
		`{` + sgd + `, "table": {"rows": 1, "width": 1}}` + "x": {},
	} {
		_, err := NewTable[float32, int64](config)
		wants(t, err, BadConfig, parts...)
	}
	_, err := NewTable[float32, int64](`{` + sgd + `, "type": "bfloat16", "table": {"rows": 1, "width": 1}}`)
	wants(t, err, BadConfig, "BFloat16", `expected "float32"`, "Table[float32, int64]")

	table := tableOf[int64](t, sgd, `"rows": 3, "width": 2`)
	wants(t, table.Update([]int64{3}, []float32{1, 2}), BadValue, "3")
	wants(t, table.Update([]int64{-1}, []float32{1, 2}), BadValue, "-1")
	wants(t, table.Update([]int64{1}, []float32{1}), BadSize)
	wants(t, table.Update([]int64{1}, []float32{1, 2}, RateScale(-1)), BadValue, "step_options.rate_scale")
	wants(t, table.RowsInto(make([]float32, 3), 1), BadSize)
	_, err = table.Row(3)
	wants(t, err, BadValue, "3")
	equal(t, rowsOf(t, table), make([]float32, 6))

	if _, err := json.Marshal(table); err == nil {
		t.Fatal("a table became JSON")
	}
	equal(t, fmt.Sprint(table), "gradstep.Table[float32, int64]{rule: sgd, rows: 3, width: 2}")
	same := *table
	check(t, table.Close())
	check(t, same.Close())
	equal(t, fmt.Sprint(same), "gradstep.Table[float32, int64]{rule: sgd, width: 2, closed}")
	wants(t, same.Update([]int64{1}, []float32{1, 2}), BadHandle, "closed")

	var zero Table[float32, int64]
	equal(t, fmt.Sprint(zero), "gradstep.Table[float32, int64]{not made}")
	_, row := zero.Row(1)
	_, averages := zero.Averages(1)
	_, info := zero.Info()
	_, config := zero.Config()
	_, state := zero.MarshalBinary()
	_, report := zero.LoadFileWith("x", LoadOptions{})
	for _, err := range []error{zero.Update(nil, nil), zero.UpdateBags(Bags[int64]{}, nil), zero.RowsInto(nil), zero.Grow(1), zero.Keep(nil),
		zero.SaveFile("x"), zero.LoadFile("x"), zero.UnmarshalBinary(nil), row, averages, info, config, state, report} {
		wants(t, err, BadHandle, "zero value", "NewTable")
	}
	check(t, zero.Close())
}
