// Package render writes Arrow values as JSON and as table cells.
//
// JSON keeps what JSON can hold exactly: integers of 64 bits as numbers, floats in the shortest form that reads back the
// same. What it cannot hold becomes a string: "inf", "-inf" and "nan", binary as base64, decimals as their digits, times
// in ISO 8601.
package render
