package test

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// These tests hold the tree to the layout that CONTRIBUTING.md shows. They read files and ask the go command; a package
// that does not exist yet breaks no rule, and one that the table of ranks does not know must be given its place there.

const module = "github.com/weirq/weir"

// The sizes, in lines.
const (
	maxFile     = 350
	maxTestFile = 600
	maxFunc     = 60
)

// ranks is the picture in CONTRIBUTING.md from the bottom up. A package and those below its folder are one unit; a unit
// imports units of a lower rank alone.
var ranks = map[string]int{
	"pkg/job":          0,
	"internal/cadence": 0,

	"pkg/pgstore":    1,
	"pkg/coord":      1,
	"internal/child": 1, // processes; pkg/worker runs jobs in them
	"config":         1,

	"pkg/client": 2,

	"pkg/sweeper":       3,
	"internal/embedded": 3,

	"pkg/worker":       4, // runs a sweeper if it is asked to
	"internal/testenv": 4,

	"pkg/run":           5,
	"pkg/web":           5,
	"pkg/weirtest":      5,
	"internal/bench":    5,
	"internal/demojobs": 5,

	"cmd/worker":  6,
	"cmd/sweeper": 6,
	"cmd/weir":    6,
	"bench":       6, // starts bench/peers, a module of its own that imports what it measures
	"test":        6,
}

// importers says who alone may import what, tests apart: a unit, or a folder of units. The importer's own unit always may.
var importers = []struct {
	what string
	who  []string
	why  string
}{
	{"github.com/spf13/viper", []string{"config"}, "one place knows where settings come from"},
	{module + "/config", []string{"pkg/run", "cmd"}, "a library is told its settings by its caller"},
}

// job is the vocabulary: beside the standard library it imports these alone.
var jobDeps = []string{"github.com/oklog/ulid/v2"}

// strangers lists what a unit knows nothing of, tests apart.
var strangers = map[string][]string{
	"pkg/coord":   {module + "/pkg/job", module + "/pkg/pgstore", "github.com/jackc/pgx", "database/sql"},
	"pkg/pgstore": {module + "/pkg/coord", "github.com/redis/go-redis"},
}

// clientDeps are the modules that a producer takes in with pkg/client, with what they themselves need.
var clientDeps = []string{
	"github.com/jackc/pgx/v5", "github.com/redis/go-redis/v9", "github.com/oklog/ulid/v2",
	"go.opentelemetry.io/otel",       // its API; see clientBans for the rest
	"github.com/netresearch/go-cron", // which needs nothing itself
}

var clientBans = []string{
	"github.com/spf13", "github.com/prometheus", "github.com/alicebob", "github.com/pressly", "github.com/fergusstrange",
	"go.opentelemetry.io/otel/sdk", "go.opentelemetry.io/otel/exporters", "go.opentelemetry.io/contrib",
}

// goFile is a Go source file of the repository, for whatever system.
type goFile struct {
	name  string // from the root, with slashes
	unit  string // the key of ranks, or the folder when it has none
	test  bool
	lines int
	tree  *ast.File
	set   *token.FileSet
}

func (f *goFile) line(p token.Pos) int { return f.set.Position(p).Line }

// goPackage is what go list says of a package.
type goPackage struct {
	Dir        string
	ImportPath string
	Standard   bool
	Imports    []string
	GoFiles    []string
}

func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "go.mod")); err != nil {
		t.Fatalf("find the module's root: %v", err)
	}
	return dir
}

// list asks the go command; -e, so that a package that does not compile does not hide the others.
func list(t *testing.T, args ...string) []goPackage {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"list", "-e", "-json=Dir,ImportPath,Standard,Imports,GoFiles"}, args...)...)
	cmd.Dir = root(t)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list %v: %v\n%s", args, err, stderr.Bytes())
	}
	var all []goPackage
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p goPackage
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatalf("read go list: %v", err)
		}
		all = append(all, p)
	}
}

// walk calls visit with every file of the repository that is not its history or what `weir dev` leaves.
func walk(t *testing.T, visit func(name string)) {
	t.Helper()
	dir := root(t)
	err := filepath.WalkDir(dir, func(file string, entry fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist): // another test's file, gone since the folder was read
			return nil
		case err != nil:
			return err
		case entry.IsDir() && slices.Contains([]string{".git", ".weir"}, entry.Name()):
			return fs.SkipDir
		case !entry.Type().IsRegular():
			return nil
		}
		name, err := filepath.Rel(dir, file)
		visit(filepath.ToSlash(name))
		return err
	})
	if err != nil {
		t.Fatalf("walk the repository: %v", err)
	}
}

// read returns a file's content, nil if it is gone since it was listed.
func read(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root(t), filepath.FromSlash(name)))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return b
}

func goFiles(t *testing.T) []*goFile {
	t.Helper()
	var files []*goFile
	walk(t, func(name string) {
		if path.Ext(name) != ".go" || strings.Contains("/"+name, "/testdata/") {
			return
		}
		src := read(t, name)
		if src == nil {
			return
		}
		f := &goFile{name: name, unit: unitOf(path.Dir(name)), test: strings.HasSuffix(name, "_test.go"), set: token.NewFileSet()}
		f.lines = bytes.Count(src, []byte("\n"))
		var err error
		if f.tree, err = parser.ParseFile(f.set, name, src, parser.ParseComments); err != nil {
			t.Errorf("%v", err)
			return
		}
		files = append(files, f)
	})
	if len(files) == 0 {
		t.Fatal("found no Go file")
	}
	return files
}

// unitOf returns the unit of a folder: the longest key of ranks that holds it.
func unitOf(dir string) string {
	for d := dir; d != "." && d != "/"; d = path.Dir(d) {
		if _, ok := ranks[d]; ok {
			return d
		}
	}
	return dir
}

// within reports whether an import path or a folder is one of those given, or below one.
func within(name string, folders ...string) bool {
	return slices.ContainsFunc(folders, func(f string) bool { return name == f || strings.HasPrefix(name, f+"/") })
}

func isStandard(imported string) bool {
	first, _, _ := strings.Cut(imported, "/")
	return !strings.Contains(first, ".")
}

// eachImport calls visit with what the files of this module import. bench has a module of its own.
func eachImport(t *testing.T, visit func(f *goFile, imported, place string)) {
	t.Helper()
	for _, f := range goFiles(t) {
		if within(f.name, "bench") {
			continue
		}
		for _, spec := range f.tree.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			visit(f, imported, f.name+":"+strconv.Itoa(f.line(spec.Pos())))
		}
	}
}

func TestEveryPackageHasItsPlaceInTheLayout(t *testing.T) {
	t.Parallel()
	for _, p := range list(t, "./...") {
		dir := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
		if _, ok := ranks[unitOf(dir)]; !ok {
			t.Errorf("%s: give it its place in CONTRIBUTING.md and in the ranks of this test", p.ImportPath)
		}
	}
}

func TestImportsGoStrictlyDownwards(t *testing.T) {
	t.Parallel()
	eachImport(t, func(f *goFile, imported, place string) {
		if f.test || !within(imported, module) {
			return // tests may use testenv, which is above them
		}
		to := unitOf(strings.TrimPrefix(imported, module+"/"))
		from, known := ranks[f.unit]
		if rank, ok := ranks[to]; known && ok && f.unit != to && rank >= from {
			t.Errorf("%s: %s imports %s, which is not below it", place, f.unit, to)
		}
	})
}

func TestSomePackagesAloneImportWhatOthersMayNot(t *testing.T) {
	t.Parallel()
	eachImport(t, func(f *goFile, imported, place string) {
		for _, rule := range importers {
			own := within(rule.what, module+"/"+f.unit)
			if within(imported, rule.what) && !own && !f.test && !within(f.unit, rule.who...) {
				t.Errorf("%s imports %s, which is for %s: %s", place, imported, strings.Join(rule.who, " and "), rule.why)
			}
		}
		if f.test {
			return
		}
		if f.unit == "pkg/job" && !isStandard(imported) && !within(imported, jobDeps...) {
			t.Errorf("%s imports %s; the vocabulary has the standard library and %s", place, imported, strings.Join(jobDeps, ", "))
		}
		if within(imported, strangers[f.unit]...) {
			t.Errorf("%s imports %s, of which %s knows nothing", place, imported, f.unit)
		}
	})
}

func TestAProducerTakesInLittle(t *testing.T) {
	t.Parallel()
	client := module + "/pkg/client"
	for _, p := range list(t, "-deps", "./pkg/client") {
		if within(p.ImportPath, clientBans...) {
			t.Errorf("%s depends on %s", client, p.ImportPath)
		}
		if !within(p.ImportPath, module) {
			continue // what an allowed module needs is its own affair
		}
		for _, imported := range p.Imports {
			if !isStandard(imported) && !within(imported, module) && !within(imported, clientDeps...) {
				t.Errorf("%s depends on %s, which imports %s", client, p.ImportPath, imported)
			}
		}
	}
}

func TestFilesAndFunctionsAreShort(t *testing.T) {
	t.Parallel()
	for _, f := range goFiles(t) {
		limit := maxFile
		if f.test {
			limit = maxTestFile
		}
		if f.lines > limit {
			t.Errorf("%s has %d lines, at most %d: split it by verb", f.name, f.lines, limit)
		}
		if f.test {
			continue
		}
		ast.Inspect(f.tree, func(n ast.Node) bool {
			name := "a function literal"
			switch fn := n.(type) {
			case *ast.FuncDecl:
				name = fn.Name.Name
			case *ast.FuncLit:
			default:
				return true
			}
			if lines := f.line(n.End()) - f.line(n.Pos()) + 1; lines > maxFunc {
				t.Errorf("%s:%d: %s has %d lines, at most %d", f.name, f.line(n.Pos()), name, lines, maxFunc)
			}
			return true
		})
	}
	walk(t, func(name string) {
		if ext := path.Ext(name); ext == ".sql" || ext == ".lua" {
			if lines := bytes.Count(read(t, name), []byte("\n")); lines > maxFile {
				t.Errorf("%s has %d lines, at most %d", name, lines, maxFile)
			}
		}
	})
}

func TestEveryPackageHasADocFileThatANewcomerCanStartWith(t *testing.T) {
	t.Parallel()
	docs := make(map[string]*goFile)
	dirs := make(map[string]bool)
	for _, f := range goFiles(t) {
		if !f.test {
			dirs[path.Dir(f.name)] = true
		}
		if path.Base(f.name) == "doc.go" {
			docs[path.Dir(f.name)] = f
		}
	}
	for dir := range dirs {
		doc := docs[dir]
		if doc == nil {
			t.Errorf("%s has no doc.go", dir)
			continue
		}
		start := "Package " + doc.tree.Name.Name + " "
		if doc.tree.Name.Name == "main" {
			start = "Command "
		}
		if text := doc.tree.Doc.Text(); !strings.HasPrefix(text, start) && !strings.HasPrefix(text, "Weir") {
			t.Errorf("%s/doc.go: the comment of the package starts with %.30q, want %q", dir, text, start)
		}
	}
}

var header = regexp.MustCompile(`^-- \w+: \S`)

func TestSQLAndLuaLieInTheirFoldersAndSayWhatTheyDo(t *testing.T) {
	t.Parallel()
	homes := map[string]string{".sql": "pkg/pgstore", ".lua": "pkg/coord/lua"}
	found := make(map[string]int)
	walk(t, func(name string) {
		home, ok := homes[path.Ext(name)]
		if !ok || strings.Contains("/"+name, "/testdata/") {
			return
		}
		found[home]++
		if !within(name, home) {
			t.Errorf("%s: want it in %s", name, home)
		}
		if src := read(t, name); src != nil && !header.Match(src) {
			t.Errorf("%s starts with %.40q, want a comment that says what it does: -- verb: purpose, arguments, locks, result", name, src)
		}
	})
	for _, home := range homes {
		if found[home] == 0 {
			t.Errorf("found no file in %s", home)
		}
	}
}

var (
	// A statement on Weir's tables or a call of its functions, in whatever case.
	ownSQL = regexp.MustCompile(`(?i)\b(from|join|into|update|table|call|select|schema)\s+"?weir\w*"?\.\w`)
	// Any statement on a table, as this project writes it.
	anySQL = regexp.MustCompile(`\b(SELECT\s[\s\S]*\sFROM\s|INSERT\s+INTO\s|UPDATE\s[\s\S]*\sSET\s|DELETE\s+FROM\s|MERGE\s+INTO\s|TRUNCATE\s+\S|` +
		`(CREATE|ALTER|DROP)\s+(TABLE|INDEX|VIEW|FUNCTION|SCHEMA)\s)`)
	anyLua = regexp.MustCompile(`\bredis\.p?call\s*\(`)
)

func TestGoCodeHoldsNeitherSQLNorLua(t *testing.T) {
	t.Parallel()
	for _, f := range goFiles(t) {
		if f.test || within(f.name, "bench") {
			continue
		}
		// Those start and inspect whole servers; Weir's tables are none of their business either.
		servers := within(f.unit, "internal")
		told := make(map[int]bool) // lines: the parts of a joined text are seen again
		ast.Inspect(f.tree, func(n ast.Node) bool {
			expr, ok := n.(ast.Expr)
			if !ok {
				_, isImport := n.(*ast.ImportSpec)
				return !isImport
			}
			text, ok := textOf(expr)
			if !ok || told[f.line(n.Pos())] {
				return true
			}
			if anyLua.MatchString(text) {
				told[f.line(n.Pos())] = true
				t.Errorf("%s:%d: Lua in %.60q, want it in pkg/coord/lua", f.name, f.line(n.Pos()), text)
			}
			if f.unit != "pkg/pgstore" && (ownSQL.MatchString(text) || !servers && anySQL.MatchString(text)) {
				told[f.line(n.Pos())] = true
				t.Errorf("%s:%d: SQL in %.60q, want it in pkg/pgstore/sql", f.name, f.line(n.Pos()), text)
			}
			return true
		})
	}
}

// textOf returns the text that a literal, or literals joined by +, stand for; what is no literal in it counts as "x".
func textOf(e ast.Expr) (text string, ok bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		return text, e.Kind == token.STRING && err == nil
	case *ast.ParenExpr:
		return textOf(e.X)
	case *ast.BinaryExpr:
		x, okX := textOf(e.X)
		y, okY := textOf(e.Y)
		if e.Op != token.ADD || !okX && !okY {
			return "x", false
		}
		return x + y, true
	}
	return "x", false
}

// Paths of one person's machine. They are put together here so that this file does not hold one.
var places = regexp.MustCompile(`(^|[^\w.)}/-])/(` + strings.Join([]string{"work", "root/go", `home/\w+`, `Users/\w+`}, "|") + `)(/|\s|[^\w/-]|$)`)

func TestNoFileTellsOfTheMachineItWasWrittenOn(t *testing.T) {
	t.Parallel()
	const large = 1 << 20
	walk(t, func(name string) {
		src := read(t, name)
		if len(src) > large || bytes.IndexByte(src, 0) >= 0 {
			return // a binary that somebody built: the compiler writes paths into it
		}
		for i, line := range bytes.Split(src, []byte("\n")) {
			if m := places.Find(line); m != nil {
				t.Errorf("%s:%d: mentions %q", name, i+1, bytes.TrimSpace(m))
			}
		}
	})
}
