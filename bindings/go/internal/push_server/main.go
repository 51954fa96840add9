// This program is a parameter server over TCP, as examples/distributed/tcp.hpp has it, with one worker: push_server ADDRESS ADDRESS.
// benchmarks/callers/pushes.py compares it with one in C++.
package main

import (
	"context"
	"encoding/binary"
	"io"
	"log"
	"net"
	"os"
	"time"

	"gradstep.org/gradstep"
)

const config = `{"tensors": {"features": {"rule": {"name": "adagrad"}, "schedule": {"name": "constant", "rate": 0.1},
	"keyed_table": {"width": 16}}}}`

// connection is a transport with one other rank.
type connection struct {
	with            net.Conn
	got, free, sent chan []byte
	last            []byte // that Receive returned; read until the next call
}

func (c *connection) Rank() int              { return 0 }
func (c *connection) Ranks() int             { return 2 }
func (c *connection) Timeout() time.Duration { return time.Minute }

func (c *connection) Send(_ int, message []byte) error {
	c.sent <- message
	return nil
}

func (c *connection) Receive(wait time.Duration) (int, []byte, error) {
	if c.last != nil {
		select {
		case c.free <- c.last:
		default:
		}
		c.last = nil
	}
	select {
	case c.last = <-c.got:
		return 1, c.last, nil
	default:
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case c.last = <-c.got:
		return 1, c.last, nil
	case <-timer.C:
		return 0, nil, nil
	}
}

// memory returns memory for a message, which an earlier one may have had.
func (c *connection) memory(length int) []byte {
	select {
	case old := <-c.free:
		if cap(old) >= length {
			return old[:length]
		}
	default:
	}
	return make([]byte, length)
}

// accept waits for the worker, which first says its rank.
func accept(address string) *connection {
	listener, err := net.Listen("tcp", address)
	check(err)
	with, err := listener.Accept()
	check(err)
	_, err = io.ReadFull(with, make([]byte, 4))
	check(err)
	c := &connection{with: with, got: make(chan []byte, 1024), free: make(chan []byte, 64), sent: make(chan []byte, 1024)}
	go func() {
		for {
			var length [8]byte
			if _, err := io.ReadFull(with, length[:]); err != nil {
				return
			}
			message := c.memory(int(binary.LittleEndian.Uint64(length[:])))
			if _, err := io.ReadFull(with, message); err != nil {
				return
			}
			c.got <- message
		}
	}()
	return c
}

// deliver writes messages until there are no more.
func (c *connection) deliver() {
	for message := range c.sent {
		frame := append(binary.LittleEndian.AppendUint64(nil, uint64(len(message))), message...)
		if _, err := c.with.Write(frame); err != nil {
			return
		}
	}
}

func main() {
	server, err := gradstep.NewServer(config, 0, 2)
	check(err)
	by := accept(os.Args[1])
	done := make(chan struct{})
	go func() {
		by.deliver()
		close(done)
	}()
	check(server.Run(context.Background(), by))
	close(by.sent)
	<-done
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
