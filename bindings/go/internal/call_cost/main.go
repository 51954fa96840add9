// This program measures what a step costs through cgo. benchmarks/callers/callers.py says what it reads and writes.
package main

import (
	"bufio"
	"fmt"
	"log"
	"os"
	"time"

	"gradstep.org/gradstep"
)

const (
	adam                   = `{"rule": {"name": "adam"}, "schedule": {"name": "constant", "rate": 0.1}}`
	adagrad                = `{"rule": {"name": "adagrad"}, "schedule": {"name": "constant", "rate": 0.1}, "keyed_table": {"width": 16}}`
	tensors, elements, few = 1000, 1000, 16
	rows, width            = 65536, 16
)

func parameter(n int) *gradstep.Parameter[float32] {
	p, err := gradstep.NewParameter(adam, make([]float32, n))
	check(err)
	for i, gradient := 0, p.Gradient(); i < n; i++ {
		gradient[i] = float32(i%7) - 3
	}
	return p
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// nanoseconds of a call, once the cache has what it works on.
func nanoseconds(calls int, f func()) float64 {
	for i := 0; i < 5; i++ {
		f()
	}
	begin := time.Now()
	for i := 0; i < calls; i++ {
		f()
	}
	return float64(time.Since(begin).Nanoseconds()) / float64(calls)
}

func main() {
	small, gradient := parameter(few), make([]float32, few)
	single, all := make([]*gradstep.Parameter[float32], tensors), make([]gradstep.AnyParameter, tensors)
	for i := range single {
		single[i] = parameter(elements)
		all[i] = single[i]
	}
	batch, err := gradstep.NewBatch(all...)
	check(err)
	features, err := gradstep.NewKeyedTable[float32](adagrad)
	check(err)
	keys, ofKeys := make([]uint64, rows), make([]float32, rows*width)
	for i := range keys {
		keys[i] = uint64(i+1) * 0x9e3779b97f4a7c15
	}
	for i := range ofKeys {
		ofKeys[i] = 0.5
	}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		fmt.Printf("%.1f %.1f %.1f %.1f %.1f\n",
			nanoseconds(20000, func() { check(small.Update(gradient)) }),
			nanoseconds(20, func() { check(batch.Update()) }),
			nanoseconds(20, func() {
				for _, p := range single {
					check(p.Update(p.Gradient()))
				}
			}),
			nanoseconds(5, func() { check(features.Update(keys, ofKeys)) }),
			nanoseconds(20000, func() { check(features.Update(keys[:1], ofKeys[:width])) }))
	}
}
