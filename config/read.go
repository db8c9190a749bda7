package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"

	"github.com/spf13/viper"
)

const (
	maxFile   = 1 << 20  // bytes of a configuration file
	maxSecret = 64 << 10 // bytes of a file that holds a secret
)

// Sources is what Read reads from. The zero value gives the defaults alone.
type Sources struct {
	// Path is the configuration file. Empty means the one that WEIR_CONFIG names in Environ, or none.
	Path string
	// YAML is the content of Path, if it was read already. Nil means: read it.
	YAML []byte
	// Environ holds lines of the form name=value, as os.Environ returns them.
	Environ []string
}

// Load reads the file at path and the process's environment. An empty path means the one that WEIR_CONFIG names, or no file.
// The error joins an *Error for each fault found.
func Load(path string) (*Loaded, error) {
	return Read(Sources{Path: path, Environ: os.Environ()})
}

// Read is Load with its sources given, for tests and for programs that keep their configuration elsewhere.
// Beside the files that it names, it depends on nothing but src; only the check of a connection string also sees libpq's PG… variables.
func Read(src Sources) (*Loaded, error) {
	env := environFrom(src.Environ)
	text, name, err := fileOf(src, env)
	if err != nil {
		return nil, err
	}
	layers := []*layer{defaults(), layerFrom(name, text), env.layer()}
	l := &Loaded{path: name, sources: map[string]string{}}
	for _, y := range layers {
		err = errors.Join(err, errors.Join(y.errs...))
		maps.Copy(l.sources, y.sources)
	}
	if err != nil {
		return nil, err
	}
	if err := merge(&l.Config, layers); err != nil {
		return nil, err
	}
	if err := l.readSecrets(); err != nil {
		return nil, err
	}
	l.derive()
	if err := l.check(); err != nil {
		return nil, err
	}
	return l, nil
}

// merge lays the layers over one another and decodes the result. This is viper's part; the layers hold checked values of the fields'
// types under known keys in lower case, so that it has nothing to guess, convert or fold.
func merge(c *Config, layers []*layer) error {
	v := viper.New()
	for key, value := range layers[0].values {
		v.SetDefault(key, value)
	}
	for _, y := range layers[1:] {
		if err := v.MergeConfigMap(y.nested()); err != nil {
			return fmt.Errorf("merge configuration: %w", err)
		}
	}
	// No decode hook: values have their types already. Exact: a key without a field is a mistake in this package.
	if err := v.UnmarshalExact(c, viper.DecodeHook(nil)); err != nil {
		return fmt.Errorf("decode configuration: %w", err)
	}
	return nil
}

// fileOf returns the content of the configuration file and what to call it.
func fileOf(src Sources, env environ) (text []byte, name string, err error) {
	name, from := src.Path, "--config"
	if name == "" {
		name, from = env[envConfig], envConfig
	}
	if src.YAML != nil {
		if name == "" {
			name = "weir.yaml"
		}
		return src.YAML, name, nil
	}
	if name == "" {
		return nil, "", nil
	}
	text, err = readFile(name, maxFile)
	if err != nil {
		return nil, "", &Error{Source: from, Problem: fmt.Sprintf("read configuration from %s: %v", showFile(name), err)}
	}
	return text, name, nil
}

// readSecrets fills each secret whose file is named. It runs after the layers were merged: a file that a higher layer has replaced need
// not be there.
func (l *Loaded) readSecrets() error {
	var errs []error
	for _, leaf := range known().leaves {
		file := known().fileOf(leaf)
		if file == nil {
			continue
		}
		path := file.field(&l.Config).String()
		if path == "" {
			continue
		}
		source := l.sources[file.key]
		text, err := readFile(path, maxSecret)
		if err != nil {
			errs = append(errs, &Error{Key: file.key, Source: source, Problem: fmt.Sprintf("read %s: %v", showPath(path), err)})
			continue
		}
		secret := trimNewline(string(text))
		if problem := checkText(secret); problem != "" {
			errs = append(errs, &Error{Key: file.key, Source: source, Problem: fmt.Sprintf("%s: its content %s", showPath(path), problemOfFile(secret, problem))})
			continue
		}
		leaf.field(&l.Config).SetString(secret)
		l.sources[leaf.key] = fmt.Sprintf("%s (%s)", path, source)
	}
	return errors.Join(errs...)
}

func problemOfFile(secret, problem string) string {
	if secret == "" {
		return "is empty"
	}
	return problem
}

// readFile reads a file of at most limit bytes. Its errors do not repeat the path, which may be a secret in the wrong place.
func readFile(path string, limit int64) ([]byte, error) {
	f, err := os.Open(filepath.Clean(path))
	if err != nil {
		return nil, withoutPath(err)
	}
	defer func() { _ = f.Close() }() // only read
	text, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, withoutPath(err)
	}
	if int64(len(text)) > limit {
		return nil, fmt.Errorf("it is longer than %d bytes", limit)
	}
	return text, nil
}

func withoutPath(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

// showFile is show for the configuration file's own name, which is a path whatever it looks like.
func showFile(name string) string {
	if likeSecret.MatchString(name) {
		return "the file (name not shown)"
	}
	return name
}

// trimNewline cuts one newline off, which editors and echo add.
func trimNewline(s string) string {
	if n := len(s); n > 0 && s[n-1] == '\n' {
		s = s[:n-1]
		if n > 1 && s[n-2] == '\r' {
			s = s[:n-2]
		}
	}
	return s
}
