package main

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"gradstep.org/gradstep"
)

const (
	everyPushes = 200 // of a server between two evictions and increments
	savedPushes = 200 // of a server between two checkpoints
)

var tables = []string{"wide", "deep"}

// serve is a parameter server. It continues from its checkpoint, if there is one.
// [serve]
func serve(by *tcp, folder string, kept int64, replica *replicaClient, metrics *metrics) error {
	server, err := gradstep.NewServer(modelJSON, by.Rank(), by.Ranks())
	if err != nil {
		return err
	}
	defer server.Close()
	if err := server.Checkpoint(filepath.Join(folder, fmt.Sprintf("server_%d.safetensors", by.Rank())), savedPushes); err != nil {
		return err
	}
	publish := func(s *gradstep.Server) error { return publishServer(s, by, metrics) }
	if err := server.AfterEvery(20, publish); err != nil {
		return err
	}
	if err := server.AfterEvery(everyPushes, func(s *gradstep.Server) error {
		if err := evict(s, kept); err != nil {
			return err
		}
		return replica.update(s)
	}); err != nil {
		return err
	}
	if err := server.Run(context.Background(), measured{by, metrics, new(time.Time)}); err != nil { // until every worker has stopped
		return err
	}
	if err := replica.update(server); err != nil {
		return err
	}
	if err := publish(server); err != nil {
		return err
	}
	return report(server, by.Rank())
}

// [serve]

// evict evicts the rows that no batch of the last steps has contained.
func evict(s *gradstep.Server, kept int64) error {
	for _, name := range tables {
		table, err := gradstep.KeyedTableOf[float32](s, name)
		if err != nil {
			return err
		}
		now, err := table.Clock()
		if err != nil {
			return err
		}
		if _, err := table.EvictOlderThan(now.Step - kept); err != nil {
			return err
		}
	}
	return nil
}

// publishServer sets the metrics of a server.
func publishServer(s *gradstep.Server, by *tcp, to *metrics) error {
	info, err := s.Info()
	if err != nil {
		return err
	}
	to.set("gradstep_pushes", float64(info.Pushes)) // since this process began
	to.set("gradstep_staleness_steps", info.Staleness)
	by.publish(to)
	for _, name := range tables {
		table, err := gradstep.KeyedTableOf[float32](s, name)
		if err != nil {
			return err
		}
		facts, err := table.Info()
		if err != nil {
			return err
		}
		now, err := table.Clock()
		if err != nil {
			return err
		}
		to.set(fmt.Sprintf("gradstep_rows{table=%q}", name), float64(facts.Rows))
		to.set(fmt.Sprintf("gradstep_steps{table=%q}", name), float64(now.Step)) // also before a restart
	}
	return nil
}

// report prints what the supervisor checks: the steps of each tensor of this server, and the impressions that it has counted.
func report(s *gradstep.Server, rank int) error {
	for _, name := range tables {
		table, err := gradstep.KeyedTableOf[float32](s, name)
		if err != nil {
			return err
		}
		now, err := table.Clock()
		if err != nil {
			return err
		}
		counts, err := table.Counts()
		if err != nil {
			return err
		}
		facts, err := table.Info()
		if err != nil {
			return err
		}
		fmt.Printf("applied %s %d\n", name, now.Step)
		fmt.Printf("server %d: %s has %d rows; %d were evicted, and %d gradients turned away\n", rank, name, facts.Rows, counts.Evicted,
			counts.TurnedAway)
	}
	if dense, _, err := gradstep.ParameterOf[float32](s, "dense"); err == nil { // on one of the servers
		now, err := dense.Clock()
		if err != nil {
			return err
		}
		fmt.Printf("applied dense %d\n", now.Step)
	}
	if seen, _, err := gradstep.ParameterOf[int64](s, "seen"); err == nil {
		values, err := seen.Values()
		if err != nil {
			return err
		}
		fmt.Printf("applied impressions %d\n", values[0])
	}
	return nil
}
