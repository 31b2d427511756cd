// Package oracle computes nearest neighbours by float64 brute force and judges answers against them.
//
// It shares no code with the library or with Lance, and follows Lance's conventions only where they define what a
// distance is: L2 is squared, dot is 1 - dot, cosine is 1 - cos, hamming counts bits, smaller is nearer, a row without
// a distance (NaN, or no vector) is no neighbour.
package oracle
