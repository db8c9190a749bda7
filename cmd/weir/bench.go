package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"github.com/weirq/weir/internal/bench"
	"github.com/weirq/weir/internal/embedded"
)

type benchFlags struct {
	cases  []string
	all    bool
	list   bool
	json   bool
	pooler bool
	scale  float64
}

var _ = add(benchCommand)

// benchCommand measures the engine alone.
func benchCommand(a *app) *cobra.Command {
	var f benchFlags
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "measure the engine on this machine",
		Long: "Measure the engine against a private Postgres (fsync on) and Redis, or those\n" +
			"of WEIR_POSTGRES_URL and WEIR_REDIS_URL. Exit code 1 if a figure misses its\n" +
			"bound.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			f.json = a.json
			return runBench(cmd.Context(), a.out, f)
		},
	}
	cmd.Flags().StringSliceVar(&f.cases, "case", nil, "cases to run, by name; default: the quick ones")
	cmd.Flags().BoolVar(&f.all, "all", false, "run all cases (about a quarter of an hour)")
	cmd.Flags().BoolVar(&f.list, "list", false, "list the cases and end")
	cmd.Flags().BoolVar(&f.pooler, "pgbouncer", false, "put a PgBouncer in transaction mode between")
	cmd.Flags().Float64Var(&f.scale, "scale", 1, "size of the large cases; 1: as promised")
	return cmd
}

func runBench(ctx context.Context, out io.Writer, f benchFlags) error {
	if f.list {
		for _, c := range bench.Cases() {
			fmt.Fprintf(out, "%-22s %s\n", c.Name, c.About)
		}
		return nil
	}
	env, closeAll, err := benchEnv(ctx, f)
	if err != nil {
		return err
	}
	defer closeAll()
	missed := 0
	for _, c := range bench.Cases() {
		if !(f.all || slices.Contains(f.cases, c.Name) || len(f.cases) == 0 && c.Quick) {
			continue
		}
		figures, err := c.Run(ctx, env)
		if err != nil {
			return fmt.Errorf("%s: %w", c.Name, err)
		}
		for _, fig := range figures {
			if !fig.OK() {
				missed++
			}
			printFigure(out, fig, f.json)
		}
	}
	if missed > 0 {
		return fmt.Errorf("%d figures miss their bound", missed)
	}
	return nil
}

func printFigure(out io.Writer, f bench.Figure, asJSON bool) {
	if asJSON {
		line, _ := json.Marshal(f)
		fmt.Fprintln(out, string(line))
		return
	}
	mark := ""
	if f.Want != "" {
		mark = "ok    " + f.Want
		if !f.OK() {
			mark = "MISS  " + f.Want
		}
	}
	fmt.Fprintln(out, strings.TrimRight(fmt.Sprintf("%-20s %-15s %12.4g %-15s %s", f.Case, f.Name, f.Value, f.Unit, mark), " "))
}

// benchEnv finds or starts the servers.
func benchEnv(ctx context.Context, f benchFlags) (*bench.Env, func(), error) {
	var closers []func()
	closeAll := func() {
		for _, c := range slices.Backward(closers) {
			c()
		}
	}
	env := &bench.Env{Scale: f.scale, Log: func(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }}
	env.PostgresURL = os.Getenv("WEIR_POSTGRES_URL")
	if env.PostgresURL == "" {
		pg, err := embedded.StartPostgres(ctx, embedded.PostgresConfig{})
		if err != nil {
			return nil, nil, err
		}
		closers = append(closers, func() { _ = pg.Close() })
		env.PostgresURL = pg.URL()
		env.Log("postgres %s, private, fsync on; %d CPUs", pg.Version(), runtime.NumCPU())
	}
	if f.pooler {
		pb, err := embedded.StartPgBouncer(ctx, embedded.PgBouncerConfig{Target: env.PostgresURL, PoolSize: 40})
		if err != nil {
			closeAll()
			return nil, nil, err
		}
		closers = append(closers, func() { _ = pb.Close() })
		env.PostgresURL, env.Pooler = pb.URL(), true
	}
	url := os.Getenv("WEIR_REDIS_URL")
	if url == "" {
		r, err := embedded.StartRedis(ctx, embedded.RedisConfig{})
		if err != nil {
			closeAll()
			return nil, nil, err
		}
		closers = append(closers, func() { _ = r.Close() })
		url = r.URL()
		env.Log("redis %s, private (%s)", r.Version(), r.Kind())
	}
	opts, err := redis.ParseURL(url)
	if err != nil {
		closeAll()
		return nil, nil, fmt.Errorf("WEIR_REDIS_URL is not a Redis URL")
	}
	opts.PoolSize = 64
	rdb := redis.NewClient(opts)
	closers = append(closers, func() { _ = rdb.Close() })
	env.Redis = rdb
	return env, closeAll, nil
}
