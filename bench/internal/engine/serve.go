package engine

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Handler answers requests; the worker side of Process.
type Handler interface {
	Handle(Request) (*Reply, error)
}

// Serve answers requests line by line until the input ends.
func Serve(in io.Reader, out io.Writer, h Handler) error {
	reader := bufio.NewReaderSize(in, 1<<20)
	encoder := json.NewEncoder(out)
	for {
		line, err := reader.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		var request Request
		var answer *Reply
		if err = json.Unmarshal(line, &request); err == nil {
			answer, err = handle(h, request)
		}
		if err != nil {
			answer = &Reply{Error: err.Error()}
		}
		if err := encoder.Encode(answer); err != nil {
			return err
		}
	}
}

func handle(h Handler, r Request) (answer *Reply, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return h.Handle(r)
}
