//go:build race

package distributed

const raceEnabled = true
