package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// supervise trains alone, then as a job of processes, two of which it kills. It starts a process again that has died, and checks that
// every push was applied once.
func supervise(steps, kept int64, python, folder string) error {
	if folder == "" {
		var err error
		if folder, err = os.MkdirTemp("", "go_parameter_server"); err != nil {
			return err
		}
		defer os.RemoveAll(folder)
	}
	alone := newCurve(steps)
	if err := trainAlone(steps, kept, alone.add); err != nil {
		return err
	}
	j, err := newJob(steps, kept, python, folder)
	if err != nil {
		return err
	}
	defer j.end(0, replicaRank)
	if err := j.run(); err != nil {
		return err
	}
	fmt.Println("       one process         2 servers, 3 workers\n step   time    loss        time    loss      the truth")
	for i := range alone.parts {
		a, b := alone.parts[i], j.curve.parts[i]
		fmt.Printf("%5d  %4.1f s  %.4f      %4.1f s  %.4f      %.4f\n", a.end, a.at.Seconds(), a.loss/a.count, b.at.Seconds(), b.loss/b.count,
			b.truth/b.count)
	}
	if err := j.queryReplica(); err != nil {
		return err
	}
	return j.check()
}

// curve is the loss of the parts of a run. A step that a worker computes again after a crash counts once.
type curve struct {
	mutex sync.Mutex
	began time.Time
	seen  map[int64]bool
	parts []part
}

type part struct {
	end                int64 // the step behind it
	at                 time.Duration
	loss, truth, count float64
}

func newCurve(steps int64) *curve {
	c := &curve{began: time.Now(), seen: map[int64]bool{}}
	for i := int64(1); i <= 6; i++ {
		c.parts = append(c.parts, part{end: steps * i / 6})
	}
	return c
}

func (c *curve) add(step int64, loss, truth float64) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.seen[step] {
		return
	}
	c.seen[step] = true
	for i := range c.parts {
		if p := &c.parts[i]; step < p.end {
			p.loss, p.truth, p.count, p.at = p.loss+loss, p.truth+truth, p.count+1, time.Since(c.began)
			return
		}
	}
}

func (c *curve) done() int64 {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return int64(len(c.seen))
}

// job is the processes of a run.
type job struct {
	steps     int64
	curve     *curve
	python    string // "": all workers are in Go
	arguments func(rank int) []string
	web       []string // the addresses for HTTP: of each rank, and of the replica
	mutex     sync.Mutex
	processes map[int]*exec.Cmd // that run now
	ended     bool
	counts    map[string][]int64 // what the servers report in the end
}

const replicaRank = ranks

func newJob(steps, kept int64, python, folder string) (*job, error) {
	own, err := os.Executable()
	if err != nil {
		return nil, err
	}
	free, err := freeAddresses(2*ranks + 1)
	if err != nil {
		return nil, err
	}
	addresses, web := free[:ranks], free[ranks:]
	j := &job{steps: steps, curve: newCurve(steps), python: python, web: web, processes: map[int]*exec.Cmd{}, counts: map[string][]int64{}}
	if python != "" {
		if out, err := exec.Command(python, "-c", "import numpy, gradstep").CombinedOutput(); err != nil {
			lines := strings.Split(strings.TrimSpace(string(out)), "\n")
			fmt.Printf("worker 4 is in Go, too: %s\n", lines[len(lines)-1])
			j.python = ""
		}
	}
	script := filepath.Join(folder, "worker.py")
	if err := os.WriteFile(script, []byte(workerPython), 0o600); err != nil {
		return nil, err
	}
	j.arguments = func(rank int) []string {
		switch {
		case rank == replicaRank:
			return []string{own, "-http", web[rank], "replica"}
		case rank == ranks-1 && j.python != "":
			return append([]string{j.python, script, fmt.Sprint(rank), fmt.Sprint(steps), web[rank]}, addresses...)
		}
		return []string{own, "-rank", fmt.Sprint(rank), "-addresses", strings.Join(addresses, ","), "-http", web[rank], "-replica",
			web[replicaRank], "-folder", folder, "-steps", fmt.Sprint(steps), "-kept", fmt.Sprint(kept)}
	}
	return j, nil
}

func freeAddresses(n int) ([]string, error) {
	var out []string
	for i := 0; i < n; i++ {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer listener.Close() // when all have one
		out = append(out, listener.Addr().String())
	}
	return out, nil
}

func (j *job) run() error {
	go j.keepAlive(replicaRank)
	served, worked := make(chan error, servers), make(chan error, workers)
	for rank := 0; rank < ranks; rank++ {
		go func(rank int) {
			if err := j.keepAlive(rank); rank < servers {
				served <- err
			} else {
				worked <- err
			}
		}(rank)
	}
	finished := make(chan struct{})
	go j.disturb(finished)
	defer close(finished)
	for i := 0; i < servers; i++ { // until every worker has stopped
		if err := <-served; err != nil {
			return err
		}
	}
	grace := time.AfterFunc(5*time.Second, func() { j.end(servers, ranks-1) }) // a worker that died at the very end finds no server
	defer grace.Stop()
	for i := 0; i < workers; i++ {
		<-worked
	}
	return nil
}

// disturb kills a worker and a server.
func (j *job) disturb(finished chan struct{}) {
	for _, event := range []struct {
		after float64 // this part of the steps
		do    func()
	}{
		{0.2, func() { j.kill(servers, "worker 2") }},
		{0.3, func() {
			j.showMetrics(0, "server 0")
			j.showMetrics(servers+1, "worker 3")
			j.showMetrics(servers+2, "worker 4")
		}},
		{0.4, func() { j.kill(1, "server 1") }},
	} {
		for float64(j.curve.done()) < event.after*float64(j.steps) {
			select {
			case <-finished:
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
		event.do()
	}
}

func (j *job) kill(rank int, what string) {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	if process := j.processes[rank]; process != nil {
		fmt.Printf("kill -9 %s after %d steps\n", what, j.curve.done())
		process.Process.Kill()
	}
}

// keepAlive runs a process, and starts it again when it has died, a few times.
func (j *job) keepAlive(rank int) error {
	for deaths := 0; ; deaths++ {
		arguments := j.arguments(rank)
		process := exec.Command(arguments[0], arguments[1:]...)
		process.Stderr = os.Stderr
		out, err := process.StdoutPipe()
		if err != nil {
			return err
		}
		j.mutex.Lock()
		if j.ended {
			err = errors.New("the job has ended")
		} else if err = process.Start(); err == nil {
			j.processes[rank] = process
		}
		j.mutex.Unlock()
		if err != nil {
			return err
		}
		j.read(out)
		err = process.Wait()
		j.mutex.Lock()
		delete(j.processes, rank)
		j.mutex.Unlock()
		if err == nil || deaths == 5 {
			return err
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// read reads the lines that a process prints.
func (j *job) read(out io.Reader) {
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var step, count int64
		var loss, truth float64
		var name string
		if n, _ := fmt.Sscanf(lines.Text(), "loss %d %g %g", &step, &loss, &truth); n == 3 {
			j.curve.add(step, loss, truth)
		} else if n, _ := fmt.Sscanf(lines.Text(), "applied %s %d", &name, &count); n == 2 {
			j.mutex.Lock()
			j.counts[name] = append(j.counts[name], count)
			j.mutex.Unlock()
		} else {
			fmt.Println(lines.Text())
		}
	}
}

// end ends the processes of these ranks that still run.
func (j *job) end(first, last int) {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	j.ended = true
	for rank, process := range j.processes {
		if first <= rank && rank <= last {
			process.Process.Kill()
		}
	}
}

// showMetrics prints what Prometheus would read from a rank.
func (j *job) showMetrics(rank int, what string) {
	answer, err := http.Get("http://" + j.web[rank] + "/metrics")
	for begun := time.Now(); err != nil && time.Since(begun) < 10*time.Second; { // a worker in Python takes longer to begin
		time.Sleep(10 * time.Millisecond)
		answer, err = http.Get("http://" + j.web[rank] + "/metrics")
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	defer answer.Body.Close()
	fmt.Printf("http://%s/metrics of %s:\n", j.web[rank], what)
	for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
		fmt.Println("    " + lines.Text())
	}
}

// queryReplica asks the replica for impressions that no worker has seen.
func (j *job) queryReplica() error {
	var loss, truth float64
	queries := 0
	for _, x := range impressionsOf(j.steps) {
		answer, err := http.Get(fmt.Sprintf("http://%s/click?site=%d&ad=%d&user=%d", j.web[replicaRank], x.site, x.ad, x.user))
		if err != nil {
			return err
		}
		var probability float64
		_, err = fmt.Fscan(answer.Body, &probability)
		answer.Body.Close()
		if err != nil {
			return fmt.Errorf("the replica: %s", answer.Status)
		}
		loss += logLoss(probability, x.clicked)
		truth += logLoss(x.probability, x.clicked)
		queries++
	}
	fmt.Printf("the replica answered %d queries: loss %.4f, the truth %.4f\n", queries, loss/float64(queries), truth/float64(queries))
	if math.IsNaN(loss) {
		return errors.New("the replica has no finite weights")
	}
	return nil
}

// check compares what the servers have applied with what the workers have computed.
func (j *job) check() error {
	for _, want := range []struct {
		name    string
		count   int64
		servers int // that have it
	}{{"wide", j.steps, servers}, {"deep", j.steps, servers}, {"dense", j.steps, 1}, {"impressions", j.steps * impressionsInAStep, 1}} {
		got := j.counts[want.name]
		if len(got) != want.servers {
			return fmt.Errorf("%s: %d servers have it; expected %d", want.name, len(got), want.servers)
		}
		for _, count := range got {
			if count != want.count {
				return fmt.Errorf("%s: %d pushes were applied; expected %d", want.name, count, want.count)
			}
		}
	}
	fmt.Printf("every push was applied once: %d to each table and to the dense weights, with %d impressions\n", j.steps,
		j.steps*impressionsInAStep)
	return nil
}
