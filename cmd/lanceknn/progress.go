package main

import (
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
)

// progress shows how far long work is; on anything but a terminal it shows nothing.
type progress struct {
	bar  *progressbar.ProgressBar
	stop func()
}

// redraw keeps the clock of a bar going while no step is done.
const redraw = 250 * time.Millisecond

// progress starts a bar of total steps, or a spinner if total is -1.
func (c console) progress(label string, total int) progress {
	if !c.errTerminal {
		return progress{}
	}
	options := []progressbar.Option{
		progressbar.OptionSetWriter(c.err),
		progressbar.OptionSetDescription(label),
		progressbar.OptionSetWidth(30),
		progressbar.OptionThrottle(redraw / 2),
		progressbar.OptionClearOnFinish(),
		progressbar.OptionSetPredictTime(total >= 100),
		progressbar.OptionSetElapsedTime(true),
	}
	if total > 0 {
		options = append(options, progressbar.OptionShowCount())
	} else {
		options = append(options, progressbar.OptionSpinnerType(14), progressbar.OptionSetSpinnerChangeInterval(0))
	}
	p := progress{bar: progressbar.NewOptions(total, options...)}
	ended, drawn := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(drawn)
		for tick := time.NewTicker(redraw); ; {
			select {
			case <-ended:
				tick.Stop()
				return
			case <-tick.C:
				_ = p.bar.RenderBlank()
			}
		}
	}()
	p.stop = sync.OnceFunc(func() {
		close(ended)
		<-drawn
		_ = p.bar.Clear()
	})
	return p
}

func (p progress) add(n int) {
	if p.bar != nil {
		_ = p.bar.Add(n) // a bar that cannot be drawn is no reason to fail
	}
}

// done takes the bar off the screen. It may be called twice.
func (p progress) done() {
	if p.bar != nil {
		p.stop()
	}
}
