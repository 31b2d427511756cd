package binding

/*
#include "trampoline.h"
*/
import "C"

import (
	"context"
	"sync"
)

// interrupt carries the end of a context into native code.
type interrupt struct {
	lib   *library
	token *C.LanceFfiCancel // nil when the context can never end
	stop  func() bool
	fired sync.WaitGroup
}

// interruptOn gives a token that is triggered when ctx ends. end must be called once the native calls that use the token have returned.
func (l *library) interruptOn(ctx context.Context) *interrupt {
	if ctx.Done() == nil {
		return &interrupt{}
	}
	i := &interrupt{lib: l, token: C.lk_cancel_new(l.entries)}
	i.fired.Add(1)
	i.stop = context.AfterFunc(ctx, i.fire)
	return i
}

func (i *interrupt) fire() {
	defer i.fired.Done()
	C.lk_cancel_trigger(i.lib.entries, i.token)
}

func (i *interrupt) end() {
	if i.token == nil {
		return
	}
	// A trigger that has begun still holds the token.
	if !i.stop() {
		i.fired.Wait()
	}
	C.lk_cancel_free(i.lib.entries, i.token)
}

// call runs one native call that can be cancelled, and waits for it to return whatever becomes of ctx.
func (l *library) call(ctx context.Context, op string, hide secrets, native func(cancel *C.LanceFfiCancel, failure *C.lk_error) C.int32_t) error {
	if err := checkContext(ctx, op); err != nil {
		return err
	}
	i := l.interruptOn(ctx)
	var failure C.lk_error
	code := native(i.token, &failure)
	i.end()
	return l.result(ctx, op, hide, code, &failure)
}

// result turns the outcome of a native call into an error. A call that finished is a success even if ctx ended meanwhile: it may have committed a version.
func (l *library) result(ctx context.Context, op string, hide secrets, code C.int32_t, failure *C.lk_error) error {
	if code == C.LANCE_FFI_OK {
		return nil
	}
	err := l.fail(op, hide, code, failure)
	if ctx.Err() == nil {
		return err
	}
	if err.Code == CodeCancelled {
		return ended(ctx, op)
	}
	err.cause = contextErrors(ctx)
	return err
}

// fail copies a native error and frees it.
func (l *library) fail(op string, hide secrets, code C.int32_t, failure *C.lk_error) *Error {
	message := make([]byte, int(failure.len))
	C.lk_error_take(l.entries, failure, bytesPointer(message))
	return &Error{Op: op, Code: Code(code), Message: hide.redact(string(message))}
}
