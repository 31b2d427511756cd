// Package vecfile reads query vectors from .npy, Arrow IPC and JSON files.
//
// Every format gives the same Matrix: values as float64, which holds float16, float32 and uint8 exactly, so that the
// caller can turn them into the type of the column that is searched.
package vecfile
