package test

import (
	"go/ast"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weirq/weir/config"
)

var (
	namedTest    = regexp.MustCompile("`([a-z/]+)\\.((?:Test|Fuzz|Example)[A-Za-z0-9_]+)`")
	namedFile    = regexp.MustCompile("`([a-z_/]+/[a-z_]+\\.(?:go|sql|lua))`")
	namedSetting = regexp.MustCompile("`([a-z]+(?:\\.[a-z_]+)+)`")
	namedPage    = regexp.MustCompile(`\]\((decisions/[a-z0-9-]+\.md)\)`)
)

// checkNamed reports every test that a page names as `package.TestName` and that is not there. It returns how often the
// page names one.
func checkNamed(t *testing.T, page string) int {
	t.Helper()
	there := make(map[string]bool)
	for _, f := range goFiles(t) {
		if !f.test {
			continue
		}
		for _, d := range f.tree.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil {
				there[path.Dir(f.name)+"."+fn.Name.Name] = true
			}
		}
	}
	tests := namedTest.FindAllSubmatch(read(t, page), -1)
	for _, m := range tests {
		if name := string(m[1]) + "." + string(m[2]); !there[name] {
			t.Errorf("%s names %s, which is not there", page, name)
		}
	}
	return len(tests)
}

func TestEverythingThatTheAbilitiesNameExists(t *testing.T) {
	t.Parallel()
	const page = "docs/abilities.md"
	if n := checkNamed(t, page); n < 50 {
		t.Errorf("%s names %d tests: too few, its form is not what this test reads", page, n)
	}
	text := string(read(t, page))
	for _, m := range namedFile.FindAllStringSubmatch(text, -1) {
		if read(t, m[1]) == nil {
			t.Errorf("%s names %s, which is not there", page, m[1])
		}
	}
	for _, m := range namedPage.FindAllStringSubmatch(text, -1) {
		if _, err := os.Stat(filepath.Join(root(t), "docs", m[1])); err != nil {
			t.Errorf("%s leads to %s: %v", page, m[1], err)
		}
	}
	keys := config.Keys()
	for _, m := range namedSetting.FindAllStringSubmatch(text, -1) {
		if !slices.ContainsFunc(keys, func(k config.Key) bool { return k.Key == m[1] }) {
			t.Errorf("%s names the setting %s, which is not there", page, m[1])
		}
	}
	for line := range strings.Lines(text) {
		if cells := strings.Count(line, " | "); strings.HasPrefix(line, "| ") && cells != 3 {
			t.Errorf("%s: a row of %d cells, want 4: %.60s", page, cells+1, line)
		}
	}
}
