// Package lab sets up datasets for tests and searches them in every way the library can.
package lab
