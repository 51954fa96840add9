package main

import (
	"context"
	"fmt"
	"time"

	"gradstep.org/gradstep"
)

// work is a worker: it takes every third step, and prints a line for each, which the supervisor reads. worker.py does the same.
// [work]
func work(ctx context.Context, by *tcp, steps int64, metrics *metrics) error {
	worker, err := gradstep.NewWorker(ctx, by, gradstep.WorkerOptions{NumServers: servers})
	if err != nil {
		return err
	}
	defer worker.Close()
	info, err := worker.Info()
	if err != nil {
		return err
	}
	if info.Stopped { // the job was done before
		return worker.Stop(ctx)
	}
	done := info.Position / pushesAStep // steps that all servers have saved
	if err := worker.GoOnFrom(done * pushesAStep); err != nil {
		return err
	}
	if done > 0 {
		fmt.Printf("worker %d goes on at its step %d\n", by.Rank(), done)
	}
	if err := publishWorker(worker, by, metrics); err != nil {
		return err
	}
	number := int64(by.Rank() - servers)
	for step := done*workers + number; step < steps; step += workers {
		began := time.Now()
		b := batchOf(step)
		if err := exchange(ctx, worker, b); err != nil {
			return err
		}
		fmt.Printf("loss %d %.6f %.6f\n", step, b.loss, b.truth)
		metrics.observe("gradstep_step_seconds", time.Since(began).Seconds())
		if err := publishWorker(worker, by, metrics); err != nil {
			return err
		}
	}
	return worker.Stop(ctx)
}

const pushesAStep = 4

// exchange pulls the weights of a batch, and pushes its gradients.
func exchange(ctx context.Context, worker *gradstep.Worker, b *batch) error {
	if err := gradstep.PullRows(ctx, worker, "wide", b.keys, b.wide); err != nil {
		return err
	}
	if err := gradstep.PullRows(ctx, worker, "deep", b.keys, b.deep); err != nil {
		return err
	}
	if err := gradstep.Pull(ctx, worker, "dense", b.dense); err != nil {
		return err
	}
	if err := gradstep.Pull(ctx, worker, "seen", make([]int64, 1)); err != nil { // a tensor is pulled before it is pushed to
		return err
	}
	b.backward()
	if err := gradstep.PushRows(ctx, worker, "wide", b.keys, b.ofWide); err != nil { // returns at once
		return err
	}
	if err := gradstep.PushRows(ctx, worker, "deep", b.keys, b.ofDeep); err != nil {
		return err
	}
	if err := gradstep.Push(ctx, worker, "dense", b.ofDense); err != nil {
		return err
	}
	return gradstep.Push(ctx, worker, "seen", []int64{impressionsInAStep})
}

// [work]

// publishWorker sets the metrics of a worker.
func publishWorker(w *gradstep.Worker, by *tcp, to *metrics) error {
	info, err := w.Info()
	if err != nil {
		return err
	}
	to.set("gradstep_pushes", float64(info.Position)) // also before a restart
	to.set("gradstep_pushes_applied", float64(info.Applied))
	to.set("gradstep_pushes_saved", float64(info.Durable))
	by.publish(to)
	return nil
}
