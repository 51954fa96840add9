// A parameter server in Go: click-through prediction on two servers and three workers, one of them in Python, with a replica that
// answers queries. docs/start/tutorial_go_parameter_server.md explains it.
//
//	go run . [-steps 3000]
package main

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"os"
	"strings"
)

const (
	servers = 2 // ranks 0 and 1
	workers = 3 // ranks 2, 3 and 4
	ranks   = servers + workers
)

func main() {
	steps := flag.Int64("steps", 3000, "batches of 100 impressions, shared by the workers")
	kept := flag.Int64("kept", 1000, "rows that no batch of so many steps contained are evicted")
	python := flag.String("python", "python3", "a Python with numpy and gradstep for worker.py; \"\": all workers are in Go")
	folder := flag.String("folder", "", "a folder for checkpoints; default: a temporary one")
	// What the supervisor tells a process:
	rank := flag.Int("rank", -1, "")
	addresses := flag.String("addresses", "", "of all ranks")
	own := flag.String("http", "", "the address of this process for /metrics")
	replica := flag.String("replica", "", "the address of the replica")
	flag.Parse()
	m := &metrics{values: map[string]float64{}}
	var err error
	switch {
	case flag.Arg(0) == "replica":
		http.Handle("/metrics", m)
		http.Handle("/", newReplica(m))
		err = http.ListenAndServe(*own, nil)
	case *rank >= 0:
		err = runRank(*rank, strings.Split(*addresses, ","), *own, *folder, *replica, *steps, *kept, m)
	default:
		err = supervise(*steps, *kept, *python, *folder)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "go_parameter_server:", err)
		os.Exit(1)
	}
}

// runRank runs a server or a worker.
func runRank(rank int, addresses []string, own, folder, replica string, steps, kept int64, m *metrics) error {
	http.Handle("/metrics", m)
	go http.ListenAndServe(own, nil)
	by, err := newTCP(rank, addresses)
	if err != nil {
		return err
	}
	defer by.flush()
	if rank < servers {
		return serve(by, folder, kept, newReplicaClient(replica, rank), m)
	}
	return work(context.Background(), by, steps, m)
}
