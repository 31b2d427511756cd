package main

import (
	"time"

	"github.com/schollz/progressbar/v3"
)

// progress shows how far long work is; on anything but a terminal it shows nothing.
type progress struct{ bar *progressbar.ProgressBar }

// progress starts a bar of total steps, or a spinner if total is -1.
func (c console) progress(label string, total int) progress {
	if !c.errTerminal {
		return progress{}
	}
	options := []progressbar.Option{
		progressbar.OptionSetWriter(c.err),
		progressbar.OptionSetDescription(label),
		progressbar.OptionSetWidth(30),
		progressbar.OptionThrottle(100 * time.Millisecond),
		progressbar.OptionClearOnFinish(),
		progressbar.OptionSetPredictTime(total > 0),
	}
	if total > 0 {
		options = append(options, progressbar.OptionShowCount())
	} else {
		options = append(options, progressbar.OptionSpinnerType(14))
	}
	return progress{bar: progressbar.NewOptions(total, options...)}
}

func (p progress) add(n int) {
	if p.bar != nil {
		_ = p.bar.Add(n) // a bar that cannot be drawn is no reason to fail
	}
}

// done takes the bar off the screen.
func (p progress) done() {
	if p.bar != nil {
		_ = p.bar.Finish()
		_ = p.bar.Clear()
	}
}
