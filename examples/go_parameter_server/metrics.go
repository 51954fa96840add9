package main

import (
	"fmt"
	"net/http"
	"sort"
	"sync"
	"time"
)

// metrics are numbers that /metrics shows in the text form of Prometheus.
type metrics struct {
	mutex  sync.Mutex
	values map[string]float64
}

func (m *metrics) set(name string, value float64) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.values[name] = value
}

// observe adds a number to a summary, whose mean is _sum / _count.
func (m *metrics) observe(name string, value float64) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.values[name+"_sum"] += value
	m.values[name+"_count"]++
}

func (m *metrics) ServeHTTP(out http.ResponseWriter, _ *http.Request) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	lines := make([]string, 0, len(m.values))
	for name, value := range m.values {
		lines = append(lines, fmt.Sprintf("%s %g\n", name, value))
	}
	sort.Strings(lines)
	for _, line := range lines {
		fmt.Fprint(out, line)
	}
}

// measured is a transport that observes the time between messages: how long a server works on one.
type measured struct {
	*tcp
	metrics *metrics
	since   *time.Time // when the last message was received
}

func (m measured) Receive(wait time.Duration) (int, []byte, error) {
	if !m.since.IsZero() {
		m.metrics.observe("gradstep_message_seconds", time.Since(*m.since).Seconds())
		*m.since = time.Time{}
	}
	from, message, err := m.tcp.Receive(wait)
	if message != nil {
		*m.since = time.Now()
	}
	return from, message, err
}
