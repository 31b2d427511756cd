package host

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// tick is the unit of CPU times in /proc: USER_HZ is 100 on every Linux architecture that matters here.
const tick = 10 * time.Millisecond

type process struct {
	parent int
	cpu    time.Duration
}

// processes reads every process's parent and CPU time.
func processes() map[int]process {
	all := map[int]process{}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return all
	}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile(filepath.Join("/proc", entry.Name(), "stat"))
		if err != nil {
			continue // it ended meanwhile
		}
		// The command's name may hold anything; what follows its closing parenthesis is regular.
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		if len(fields) < 15 {
			continue
		}
		number := func(i int) int64 { n, _ := strconv.ParseInt(string(fields[i]), 10, 64); return n }
		all[pid] = process{parent: int(number(1)), cpu: time.Duration(number(11)+number(12)+number(13)+number(14)) * tick}
	}
	return all
}

// Tree is what a process and its descendants used.
type Tree struct {
	CPU       time.Duration
	PeakBytes int64 // sum of each process's own peak
	Processes int
}

// Measure adds up a process and its living descendants. CPU includes descendants that ended and were waited for.
func Measure(pid int) Tree {
	all := processes()
	var t Tree
	for candidate, p := range all {
		if !below(all, candidate, pid) {
			continue
		}
		t.CPU += p.cpu
		t.PeakBytes += peak(candidate)
		t.Processes++
	}
	return t
}

func below(all map[int]process, pid, ancestor int) bool {
	for range 64 {
		if pid == ancestor {
			return true
		}
		p, ok := all[pid]
		if !ok || p.parent <= 1 {
			return false
		}
		pid = p.parent
	}
	return false
}

func peak(pid int) int64 {
	for _, line := range lines(fmt.Sprintf("/proc/%d/status", pid)) {
		if value, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, _ := strconv.ParseInt(strings.Fields(value)[0], 10, 64)
			return kib << 10
		}
	}
	return 0
}

// Load is a reading of the whole machine's CPU clocks.
type Load struct {
	at    time.Time
	busy  time.Duration
	steal time.Duration
	own   time.Duration
}

// ReadLoad reads the machine's clocks; own processes are this one's tree.
func ReadLoad() Load {
	l := Load{at: time.Now(), own: Measure(os.Getpid()).CPU}
	for _, line := range lines("/proc/stat") {
		fields := strings.Fields(line)
		if len(fields) < 9 || fields[0] != "cpu" {
			continue
		}
		number := func(i int) time.Duration { n, _ := strconv.ParseInt(fields[i], 10, 64); return time.Duration(n) * tick }
		l.busy = number(1) + number(2) + number(3) + number(6) + number(7)
		l.steal = number(8)
	}
	return l
}

// Foreign is how much of the machine others used since the reading: processes that are not ours, and a hypervisor's other guests.
type Foreign struct {
	CPUFraction   float64 `json:"cpu_fraction"` // of all cores
	StealFraction float64 `json:"steal_fraction"`
	Seconds       float64 `json:"seconds"`
}

// Since compares the machine's clocks with an earlier reading.
func (l Load) Since(cores int) Foreign {
	now := ReadLoad()
	elapsed := now.at.Sub(l.at)
	if elapsed <= 0 {
		return Foreign{}
	}
	share := func(d time.Duration) float64 { return max(0, d.Seconds()/(elapsed.Seconds()*float64(cores))) }
	return Foreign{
		CPUFraction:   share(now.busy - l.busy - (now.own - l.own)),
		StealFraction: share(now.steal - l.steal),
		Seconds:       elapsed.Seconds(),
	}
}

// SelfCPU is the CPU time of this process, to the microsecond.
func SelfCPU() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
