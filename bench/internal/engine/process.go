package engine

import (
	"bufio"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

//go:embed python/*.py
var scripts embed.FS

// Scripts writes the Python workers to a folder and returns a hash-worthy listing of their text.
func Scripts(folder string) error {
	names, err := scripts.ReadDir("python")
	if err != nil {
		return err
	}
	for _, entry := range names {
		text, err := scripts.ReadFile("python/" + entry.Name())
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(folder, entry.Name()), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// Command is how to start a worker.
type Command struct {
	Args        []string
	Environment []string // complete: nothing is inherited
	Log         string   // file that gets the worker's standard error
}

// Process is a running worker. It is not safe for concurrent use: contenders take turns.
type Process struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	replies chan reply
	log     *os.File
	exited  chan struct{}
}

type reply struct {
	line []byte
	err  error
}

// Start runs a worker; it is ready when it answers hello.
func Start(c Command) (*Process, error) {
	log, err := os.OpenFile(c.Log, os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(c.Args[0], c.Args[1:]...)
	cmd.Env, cmd.Stderr = c.Environment, log
	// A group of its own, so that what the worker starts ends with it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, errors.Join(err, log.Close())
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, errors.Join(err, log.Close())
	}
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(err, log.Close())
	}
	p := &Process{cmd: cmd, in: in, log: log, replies: make(chan reply, 1), exited: make(chan struct{})}
	go p.read(out)
	return p, nil
}

func (p *Process) read(out io.Reader) {
	reader := bufio.NewReaderSize(out, 1<<20)
	for {
		line, err := reader.ReadBytes('\n')
		if err != nil {
			p.replies <- reply{err: err}
			// How it ended says nothing that the missing reply does not, and a worker that was told to end may end as it likes.
			_ = p.cmd.Wait()
			close(p.exited)
			return
		}
		p.replies <- reply{line: line}
	}
}

// PID is the worker's process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Call sends a request and waits for its reply. After an error other than the engine's own the worker is of no more use.
func (p *Process) Call(ctx context.Context, r Request) (*Reply, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	if _, err := p.in.Write(append(text, '\n')); err != nil {
		return nil, fmt.Errorf("worker does not take %q: %w%s", r.Op, err, p.tail())
	}
	select {
	case <-ctx.Done():
		return nil, fmt.Errorf("worker gave no answer to %q: %w%s", r.Op, context.Cause(ctx), p.tail())
	case got := <-p.replies:
		if got.err != nil {
			return nil, fmt.Errorf("worker ended during %q: %w%s", r.Op, got.err, p.tail())
		}
		var answer Reply
		if err := json.Unmarshal(got.line, &answer); err != nil {
			return nil, fmt.Errorf("answer to %q is not JSON: %w", r.Op, err)
		}
		if answer.Error != "" {
			return nil, &Error{Op: r.Op, Message: answer.Error}
		}
		return &answer, nil
	}
}

// Error is an error the engine itself reported; its worker lives on.
type Error struct {
	Op, Message string
}

func (e *Error) Error() string { return fmt.Sprintf("%s: %s", e.Op, e.Message) }

// tail is the end of the worker's log.
func (p *Process) tail() string {
	const keep = 600
	info, err := p.log.Stat()
	if err != nil || info.Size() == 0 {
		return ""
	}
	text := make([]byte, min(info.Size(), keep))
	n, err := p.log.ReadAt(text, info.Size()-int64(len(text)))
	if err != nil {
		return ""
	}
	return "; its log ends: " + strings.TrimSpace(string(text[:n]))
}

// Close asks the worker to end by closing its input, and ends its process group if it does not.
func (p *Process) Close() error {
	p.in.Close()
	deadline := time.After(20 * time.Second)
	for {
		select {
		case <-p.replies: // an answer nobody waits for, or the end
		case <-p.exited:
			return p.log.Close()
		case <-deadline:
			err := syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
			deadline = nil
			if err != nil && !errors.Is(err, syscall.ESRCH) {
				return errors.Join(err, p.log.Close())
			}
		}
	}
}

// Kill ends the worker's process group at once.
func (p *Process) Kill() error {
	err := syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	return errors.Join(err, p.Close())
}
