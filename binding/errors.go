package binding

import (
	"context"
	"errors"
	"fmt"
)

// Code is the kind of an [Error].
type Code int32

// The codes up to CodeAlreadyExists are those of the native library; the others arise in this package.
const (
	CodeInvalidArgument Code = iota + 1
	CodeNotFound
	CodeVersionGone
	CodeConflict
	CodeIO
	CodeCorrupt
	CodeUnsupported
	CodeCancelled
	CodeNativePanic
	CodeInternal
	CodeAlreadyExists

	CodeABIMismatch Code = iota + 100
	CodeLibraryNotFound
	CodeUnsupportedCPU
	CodeClosed
)

// Targets for [errors.Is], one for each code but CodeCancelled, which matches [context.Canceled] or [context.DeadlineExceeded].
var (
	ErrInvalidArgument = errors.New("invalid argument")
	ErrNotFound        = errors.New("not found")
	ErrVersionGone     = errors.New("version is gone")
	ErrConflict        = errors.New("conflicting commit")
	ErrIO              = errors.New("input or output failed")
	ErrCorrupt         = errors.New("data is corrupt")
	ErrUnsupported     = errors.New("not supported")
	ErrNativePanic     = errors.New("native code panicked")
	ErrInternal        = errors.New("internal error")
	ErrAlreadyExists   = errors.New("already exists")
	ErrABIMismatch     = errors.New("native library has another abi")
	ErrLibraryNotFound = errors.New("native library not found")
	ErrUnsupportedCPU  = errors.New("cpu lacks features the native library needs")
	ErrClosed          = errors.New("dataset is closed")
)

var sentinels = map[Code]error{
	CodeInvalidArgument: ErrInvalidArgument,
	CodeNotFound:        ErrNotFound,
	CodeVersionGone:     ErrVersionGone,
	CodeConflict:        ErrConflict,
	CodeIO:              ErrIO,
	CodeCorrupt:         ErrCorrupt,
	CodeUnsupported:     ErrUnsupported,
	CodeNativePanic:     ErrNativePanic,
	CodeInternal:        ErrInternal,
	CodeAlreadyExists:   ErrAlreadyExists,
	CodeABIMismatch:     ErrABIMismatch,
	CodeLibraryNotFound: ErrLibraryNotFound,
	CodeUnsupportedCPU:  ErrUnsupportedCPU,
	CodeClosed:          ErrClosed,
}

// Error is every error of this package.
type Error struct {
	Op      string // the operation, such as "search"
	Code    Code
	Message string

	cause error
}

// Error gives "binding: <op>: <message>".
func (e *Error) Error() string { return "binding: " + e.Op + ": " + e.Message }

// Is reports whether target is the sentinel of the code.
func (e *Error) Is(target error) bool { return sentinels[e.Code] == target }

// Unwrap gives what ended the call's context, or the error of a record reader; nil for an error that began in native code.
func (e *Error) Unwrap() error { return e.cause }

func invalid(op, format string, args ...any) *Error {
	return &Error{Op: op, Code: CodeInvalidArgument, Message: fmt.Sprintf(format, args...)}
}

func closed(op string) *Error {
	return &Error{Op: op, Code: CodeClosed, Message: "dataset is closed; open it again"}
}

// ended describes a context that is done. Cause may be any error of the caller's, so the context's own Err is kept beside it.
func ended(ctx context.Context, op string) *Error {
	cause := context.Cause(ctx)
	return &Error{Op: op, Code: CodeCancelled, Message: cause.Error(), cause: contextErrors(ctx)}
}

func contextErrors(ctx context.Context) error {
	cause, err := context.Cause(ctx), ctx.Err()
	if cause == err { //nolint:errorlint // identity is meant: the same error need not be listed twice
		return err
	}
	return errors.Join(err, cause)
}

func checkContext(ctx context.Context, op string) error {
	if ctx.Err() != nil {
		return ended(ctx, op)
	}
	return nil
}
