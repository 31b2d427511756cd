package faults

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/lanceknn/lanceknn/binding"
	"github.com/lanceknn/lanceknn/distributed"
)

// elsewhere runs each task as another process would: encoded, decoded, on a dataset handle of its own.
type elsewhere struct{ t *testing.T }

func (e elsewhere) Execute(ctx context.Context, task distributed.Task) (distributed.TaskResult, error) {
	text, err := json.Marshal(task)
	if err != nil {
		return distributed.TaskResult{}, err
	}
	var received distributed.Task
	if err := json.Unmarshal(text, &received); err != nil {
		return distributed.TaskResult{}, err
	}
	ds, err := binding.Open(ctx, received.URI, received.Open)
	if err != nil {
		return distributed.TaskResult{}, err
	}
	defer ds.Close()
	found, err := distributed.RunTask(ctx, ds, received)
	if err != nil {
		return distributed.TaskResult{}, err
	}
	if text, err = json.Marshal(found); err != nil {
		return distributed.TaskResult{}, err
	}
	var back distributed.TaskResult
	return back, json.Unmarshal(text, &back)
}
