package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"

	"gradstep.org/gradstep"
)

// replica answers queries. Servers send it what has changed; it trains nothing.
type replica struct {
	mutex   sync.RWMutex
	tables  [servers]map[string]*gradstep.KeyedTable[float32] // each server has its own rows and its own clock
	dense   []float32
	metrics *metrics
}

func newReplica(metrics *metrics) *replica {
	r := &replica{dense: make([]float32, denseSize), metrics: metrics}
	for i := range r.tables {
		r.tables[i] = map[string]*gradstep.KeyedTable[float32]{}
	}
	return r
}

// newTable makes an empty table with the configuration that the servers have.
func newTable(name string) (*gradstep.KeyedTable[float32], error) {
	var model struct{ Tensors map[string]json.RawMessage }
	if err := json.Unmarshal([]byte(modelJSON), &model); err != nil {
		return nil, err
	}
	return gradstep.NewKeyedTable[float32](string(model.Tensors[name]))
}

// [apply]
// apply applies what has changed in a table of a server since a step. Since 0, it is all rows.
func (r *replica) apply(server int, name string, since int64, changes io.Reader) error {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	table := r.tables[server][name]
	if since == 0 { // the first time, or after a restart of the server
		var err error
		if table, err = newTable(name); err != nil {
			return err
		}
	} else if table == nil {
		return errors.New("the replica has begun anew; expected all rows")
	}
	bytes, err := table.ReadChanges(changes)
	if err != nil {
		return err
	}
	r.tables[server][name] = table
	r.metrics.observe("gradstep_increment_bytes", float64(bytes))
	return nil
}

// [apply]

// predict returns the probability that an impression is clicked.
func (r *replica) predict(keys [features]uint64) (float64, error) {
	r.mutex.RLock()
	defer r.mutex.RUnlock()
	wide, deep := make([]float32, features), make([]float32, inputs)
	for k, key := range keys {
		own := r.tables[stableHash(key)>>32*servers>>32] // floor(stableHash * servers / 2^64)
		if own["wide"] == nil || own["deep"] == nil {
			return 0, errors.New("the replica has no rows yet")
		}
		if err := own["wide"].RowsInto(wide[k:k+1], key); err != nil {
			return 0, err
		}
		if err := own["deep"].RowsInto(deep[k*width:(k+1)*width], key); err != nil {
			return 0, err
		}
	}
	probability, _ := forward(wide, deep, r.dense)
	return probability, nil
}

// ServeHTTP answers GET /click?site=17&ad=40&user=5, and takes what servers post.
func (r *replica) ServeHTTP(out http.ResponseWriter, in *http.Request) {
	number := func(name string) int64 {
		n, _ := strconv.ParseInt(in.FormValue(name), 10, 64)
		return n
	}
	var err error
	switch in.URL.Path {
	case "/click":
		var probability float64
		if probability, err = r.predict(keysOf(uint64(number("site")), uint64(number("ad")), int(number("user")))); err == nil {
			fmt.Fprintln(out, probability)
		}
	case "/changes":
		if server := number("server"); server < 0 || server >= servers {
			err = fmt.Errorf("server %d; expected 0 to %d", server, servers-1)
		} else {
			err = r.apply(int(server), in.FormValue("table"), number("since"), in.Body)
		}
	case "/dense":
		r.mutex.Lock()
		err = binary.Read(in.Body, binary.LittleEndian, r.dense)
		r.mutex.Unlock()
	default:
		http.NotFound(out, in)
	}
	if err != nil {
		http.Error(out, err.Error(), http.StatusConflict)
	}
}

// replicaClient is what a server knows of the replica.
type replicaClient struct {
	address string
	server  int
	sent    map[string]int64 // up to which step the replica has each table
	client  http.Client
}

// replicaTimeout is how long the server waits for the replica. Meanwhile it handles no message, so the time is shorter than the
// timeout of the transport.
const replicaTimeout = 3 * time.Second

func newReplicaClient(address string, server int) *replicaClient {
	return &replicaClient{address, server, map[string]int64{}, http.Client{Timeout: replicaTimeout}}
}

// [update]
// update sends what has changed since the last time. If the replica does not take it, the next call sends all rows.
func (r *replicaClient) update(s *gradstep.Server) error {
	for _, name := range tables {
		table, err := gradstep.KeyedTableOf[float32](s, name)
		if err != nil {
			return err
		}
		now, err := table.Clock()
		if err != nil {
			return err
		}
		var changes bytes.Buffer
		if _, err := table.WriteChanges(&changes, r.sent[name], gradstep.RowValues); err != nil {
			return err
		}
		if !r.post(fmt.Sprintf("/changes?server=%d&table=%s&since=%d", r.server, name, r.sent[name]), &changes) {
			r.sent = map[string]int64{}
			return nil
		}
		r.sent[name] = now.Step
	}
	if dense, _, err := gradstep.ParameterOf[float32](s, "dense"); err == nil { // on one of the servers
		var values bytes.Buffer
		if err := dense.Read(func(w []float32) {
			for _, x := range w {
				values.Write(binary.LittleEndian.AppendUint32(nil, math.Float32bits(x)))
			}
		}); err != nil {
			return err
		}
		r.post("/dense", &values)
	}
	return nil
}

// [update]

func (r *replicaClient) post(path string, body io.Reader) bool {
	answer, err := r.client.Post("http://"+r.address+path, "application/octet-stream", body)
	if err != nil {
		fmt.Fprintf(os.Stderr, "server %d: the replica: %v\n", r.server, err)
		return false
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		why, _ := io.ReadAll(answer.Body)
		fmt.Fprintf(os.Stderr, "server %d: the replica: %s\n", r.server, bytes.TrimSpace(why))
	}
	return answer.StatusCode == http.StatusOK
}
