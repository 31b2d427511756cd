package binding

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
)

const (
	libraryVariable = "LANCE_FFI_LIB"
	modulePath      = "github.com/lanceknn/lanceknn"
)

// BuildInfo says what the native library was built from.
type BuildInfo struct {
	Version   string `json:"version"` // of lance-ffi
	Lance     string `json:"lance"`   // of the lance crate
	Target    string `json:"target"`  // Rust's target triple
	TargetCPU string `json:"target_cpu"`
	Rustc     string `json:"rustc"`
}

// LoadOption is an option of [Load].
type LoadOption func(*loader)

// WithLibraryPath names the library file to load; no other place is searched.
func WithLibraryPath(path string) LoadOption {
	return func(l *loader) { l.path = path }
}

var (
	loaded   atomic.Pointer[library]
	loadLock sync.Mutex
)

// Load loads the native library for the whole process. Other calls load it when they need it, so Load is for choosing the file, and for finding out
// early. Once it has succeeded, further calls do nothing, unless they name another file: that is ErrInvalidArgument. After a failure it can be tried
// again. Errors are ErrLibraryNotFound, ErrABIMismatch and ErrUnsupportedCPU.
func Load(opts ...LoadOption) error {
	l := newLoader()
	for _, o := range opts {
		o(l)
	}
	_, err := load(l)
	return err
}

// Info describes the native library, which is loaded if it is not yet.
func Info() (BuildInfo, error) {
	l, err := current()
	if err != nil {
		return BuildInfo{}, err
	}
	return l.info, nil
}

// LiveHandles is the number of native objects not yet freed: open datasets, and whatever calls in flight hold. It is 0 when no library is loaded.
func LiveHandles() int64 {
	if l := loaded.Load(); l != nil {
		return l.liveHandles()
	}
	return 0
}

func current() (*library, error) {
	if l := loaded.Load(); l != nil {
		return l, nil
	}
	return load(newLoader())
}

func load(from *loader) (*library, error) {
	loadLock.Lock()
	defer loadLock.Unlock()
	if l := loaded.Load(); l != nil {
		if from.path != "" && !sameFile(from.path, l.path) {
			return nil, invalid("load", "library %q is already loaded; a process cannot change to %q", l.path, from.path)
		}
		return l, nil
	}
	l, err := from.load()
	if err != nil {
		return nil, err
	}
	loaded.Store(l)
	return l, nil
}

func sameFile(a, b string) bool {
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	return errX == nil && errY == nil && os.SameFile(x, y)
}

// loader finds a library. What it asks of the process is in fields, so that tests can give other answers.
type loader struct {
	path        string
	environment string
	executable  func() (string, error)
	workingDir  func() (string, error)
	sourceFile  string
	features    map[string][]cpuFeature
}

func newLoader() *loader {
	_, source, _, _ := runtime.Caller(0)
	return &loader{
		environment: os.Getenv(libraryVariable),
		executable:  os.Executable,
		workingDir:  os.Getwd,
		sourceFile:  source,
		features:    hostFeatures(),
	}
}

func (l *loader) load() (*library, error) {
	path, err := l.find()
	if err != nil {
		return nil, err
	}
	if err := checkCPU(path, l.features); err != nil {
		return nil, err
	}
	return openLibrary(path)
}

// find gives the library's path. A file that was named and is missing is an error rather than a reason to take another one.
func (l *loader) find() (string, error) {
	if static {
		if l.path != "" {
			return "", invalid("load", "the native library is linked into this program; %q cannot be loaded", l.path)
		}
		return l.executable()
	}
	if l.path != "" {
		return named(l.path, "WithLibraryPath")
	}
	if l.environment != "" {
		return named(l.environment, libraryVariable)
	}
	places := l.places()
	for _, place := range places {
		if isFile(place) {
			return place, nil
		}
	}
	return "", &Error{Op: "load", Code: CodeLibraryNotFound, Message: fmt.Sprintf(
		"no native library at %s; build it with `make native`, or set %s to its path", strings.Join(places, ", "), libraryVariable)}
}

func named(path, by string) (string, error) {
	if !isFile(path) {
		return "", &Error{
			Op: "load", Code: CodeLibraryNotFound,
			Message: fmt.Sprintf("no native library at %q, named by %s; build it with `make native`", path, by),
		}
	}
	// Without a slash the system's loader would search its own folders.
	absolute, err := filepath.Abs(path)
	if err != nil {
		return "", notLoadable(path, err)
	}
	return absolute, nil
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

func (l *loader) places() []string {
	file := libraryFile()
	var places []string
	if executable, err := l.executable(); err == nil {
		if resolved, err := filepath.EvalSymlinks(executable); err == nil {
			executable = resolved
		}
		places = append(places, filepath.Join(filepath.Dir(executable), file))
	}
	var roots []string
	if dir, err := l.workingDir(); err == nil {
		if root := moduleRoot(dir); root != "" {
			roots = append(roots, root)
		}
	}
	// With -trimpath the source file has no absolute path.
	if filepath.IsAbs(l.sourceFile) {
		if root := moduleRoot(filepath.Dir(l.sourceFile)); root != "" && (len(roots) == 0 || roots[0] != root) {
			roots = append(roots, root)
		}
	}
	for _, root := range roots {
		places = append(places, filepath.Join(root, "cbuild", "dist", runtime.GOOS+"_"+runtime.GOARCH, file))
	}
	return places
}

func libraryFile() string {
	if runtime.GOOS == "darwin" {
		return "liblance_ffi.dylib"
	}
	return "liblance_ffi.so"
}

// moduleRoot is the nearest folder at or above dir whose go.mod is this module's; empty when there is none.
func moduleRoot(dir string) string {
	for {
		if declares(filepath.Join(dir, "go.mod"), modulePath) {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return ""
		}
		dir = parent
	}
}

func declares(goMod, module string) bool {
	file, err := os.Open(goMod)
	if err != nil {
		return false
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if fields := strings.Fields(lines.Text()); len(fields) >= 2 && fields[0] == "module" {
			return fields[1] == module
		}
	}
	return false
}
