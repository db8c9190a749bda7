package test

import (
	"testing"

	"github.com/weirq/weir/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }
