package main

import (
	"encoding/binary"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// tcp is a gradstep.Transport over TCP. Each rank listens, and connects to a rank when it first sends to it. On a connection, the
// sender first writes its rank in 4 bytes; a message is its length in 8 bytes and its bytes. If a rank dies, the others connect again
// when it is back. Nothing is encrypted: use it in a network that you trust.
type tcp struct {
	rank      int
	addresses []string
	timeout   time.Duration
	inbox     chan arrived
	outboxes  []chan []byte
	unsent    sync.WaitGroup
	sent, got atomic.Int64 // bytes
}

type arrived struct {
	from  int
	bytes []byte
}

func newTCP(rank int, addresses []string) (*tcp, error) {
	t := &tcp{rank: rank, addresses: addresses, timeout: 20 * time.Second, inbox: make(chan arrived, 1<<12)}
	listener, err := net.Listen("tcp", addresses[rank])
	if err != nil {
		return nil, err
	}
	for to := range addresses {
		outbox := make(chan []byte, 1<<12) // more than a worker sends before it waits
		t.outboxes = append(t.outboxes, outbox)
		if to != rank {
			go t.deliver(to, outbox)
		}
	}
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			go t.collect(connection)
		}
	}()
	return t, nil
}

func (t *tcp) Rank() int              { return t.rank }
func (t *tcp) Ranks() int             { return len(t.addresses) }
func (t *tcp) Timeout() time.Duration { return t.timeout }

func (t *tcp) Send(to int, message []byte) error {
	if to == t.rank {
		t.inbox <- arrived{to, message}
	} else {
		t.unsent.Add(1)
		t.outboxes[to] <- message
	}
	return nil
}

// publish sets the metrics of this transport.
func (t *tcp) publish(to *metrics) {
	to.set("gradstep_sent_bytes", float64(t.sent.Load()))
	to.set("gradstep_received_bytes", float64(t.got.Load()))
}

// flush waits until the last messages are sent, but not long for ranks that have ended.
func (t *tcp) flush() {
	done := make(chan struct{})
	go func() {
		t.unsent.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(time.Second):
	}
}

func (t *tcp) Receive(wait time.Duration) (int, []byte, error) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case got := <-t.inbox:
		return got.from, got.bytes, nil
	case <-timer.C:
		return 0, nil, nil
	}
}

// [deliver]
// deliver sends the messages to a rank, over a new connection after the rank has died. Messages that were on their way then are lost:
// servers and workers send them again.
func (t *tcp) deliver(to int, outbox chan []byte) {
	var connection net.Conn
	var died chan struct{}
	for message := range outbox {
		select {
		case <-died:
			connection.Close()
			connection = nil
		default:
		}
		if connection == nil {
			connection, died = t.connect(to)
		}
		frame := append(binary.LittleEndian.AppendUint64(nil, uint64(len(message))), message...)
		connection.Write(frame) // if it fails, the rank has died
		t.sent.Add(int64(len(frame)))
		t.unsent.Done()
	}
}

// [deliver]

// connect waits until the rank is there. The channel is closed when it has died.
func (t *tcp) connect(to int) (net.Conn, chan struct{}) {
	for {
		connection, err := net.Dial("tcp", t.addresses[to])
		if err != nil {
			time.Sleep(20 * time.Millisecond)
			continue
		}
		connection.Write(binary.LittleEndian.AppendUint32(nil, uint32(t.rank)))
		died := make(chan struct{})
		go func() {
			connection.Read(make([]byte, 1)) // no rank writes to a connection that it has accepted
			close(died)
		}()
		return connection, died
	}
}

// collect receives the messages of the rank that has connected.
func (t *tcp) collect(connection net.Conn) {
	defer connection.Close()
	var from [4]byte
	if _, err := io.ReadFull(connection, from[:]); err != nil {
		return
	}
	for {
		var length [8]byte
		if _, err := io.ReadFull(connection, length[:]); err != nil {
			return
		}
		message := make([]byte, binary.LittleEndian.Uint64(length[:]))
		if _, err := io.ReadFull(connection, message); err != nil {
			return
		}
		t.got.Add(int64(len(length) + len(message)))
		t.inbox <- arrived{int(binary.LittleEndian.Uint32(from[:])), message}
	}
}
