package main

import (
	"encoding/json"

	"gradstep.org/gradstep"
)

// trainAlone trains the same model in one process, without servers.
func trainAlone(steps, kept int64, seen func(step int64, loss, truth float64)) error {
	wide, err := newTable("wide")
	if err != nil {
		return err
	}
	defer wide.Close()
	deep, err := newTable("deep")
	if err != nil {
		return err
	}
	defer deep.Close()
	dense, err := newDense()
	if err != nil {
		return err
	}
	defer dense.Close()
	for step := int64(0); step < steps; step++ {
		b := batchOf(step)
		if err := wide.RowsInto(b.wide, b.keys...); err != nil {
			return err
		}
		if err := deep.RowsInto(b.deep, b.keys...); err != nil {
			return err
		}
		if err := dense.Read(func(w []float32) { copy(b.dense, w) }); err != nil {
			return err
		}
		b.backward()
		if err := wide.Update(b.keys, b.ofWide); err != nil {
			return err
		}
		if err := deep.Update(b.keys, b.ofDeep); err != nil {
			return err
		}
		if err := dense.Update(b.ofDense); err != nil {
			return err
		}
		if step%100 == 99 {
			for _, table := range []*gradstep.KeyedTable[float32]{wide, deep} {
				if _, err := table.EvictOlderThan(step - kept); err != nil {
					return err
				}
			}
		}
		seen(step, b.loss, b.truth)
	}
	return nil
}

// newDense makes the dense weights with the initial values that the servers have.
func newDense() (*gradstep.Parameter[float32], error) {
	server, err := gradstep.NewServer(modelJSON, denseRank(), ranks)
	if err != nil {
		return nil, err
	}
	defer server.Close()
	view, _, err := gradstep.ParameterOf[float32](server, "dense")
	if err != nil {
		return nil, err
	}
	initial, err := view.Values()
	if err != nil {
		return nil, err
	}
	var model struct {
		Tensors map[string]map[string]json.RawMessage
	}
	if err := json.Unmarshal([]byte(modelJSON), &model); err != nil {
		return nil, err
	}
	optimizer := model.Tensors["dense"]
	delete(optimizer, "parameter")
	text, err := json.Marshal(optimizer)
	if err != nil {
		return nil, err
	}
	return gradstep.NewParameter(string(text), initial)
}

// denseRank returns the server that has the dense weights: a small parameter is on the server that the hash of its name selects.
func denseRank() int { return int(hashesOf("dense")[0] >> 32 * servers >> 32) }
