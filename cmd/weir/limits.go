package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirq/weir/pkg/client"
)

var _ = add(limitsCommand)

func limitsCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{Use: "limits", Short: "look at the limits of keys, set or unset them"}
	cmd.AddCommand(a.limitsList(), a.limitsSet(), a.limitsUnset())
	return cmd
}

func (a *app) limitsList() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "list the entries that count before what jobs say themselves", Args: cobra.NoArgs,
		Long: "List the entries that count before what jobs say themselves. A name that ends\nin * is a prefix: the entry of the key itself, else the longest prefix counts.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.connect(cmd.Context(), func(s *session) error { return a.listLimits(cmd.Context(), s) })
		},
	}
}

func (a *app) listLimits(ctx context.Context, s *session) error {
	limits, err := s.Limits(ctx)
	if err != nil {
		return err
	}
	var rows [][]string
	for _, l := range limits {
		if a.json {
			if err := a.printJSON(l); err != nil {
				return err
			}
			continue
		}
		what, n := "key", number(int64(l.N))
		if l.Rate {
			what, n = "rate", number(int64(l.N))+" per "+perText(l.Per)
		}
		name := shorten(l.Key, 40)
		if l.Prefix {
			name += "*"
		}
		rows = append(rows, []string{what, name, n, ownerText(l.Owner)})
	}
	switch {
	case a.json:
	case len(rows) == 0:
		a.print("no entry: what jobs say themselves counts\n")
	default:
		a.table([]string{"of", "name", "limit", ""}, rows)
	}
	return nil
}

func ownerText(owner string) string {
	switch owner {
	case "config":
		return "from config"
	case "override":
		return "overrides config"
	}
	return ""
}

// entryFlags say which entry of limits a command is about.
type entryFlags struct{ rate, exact, override bool }

func (f *entryFlags) on(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.rate, "rate", false, "the name is a rate's")
	cmd.Flags().BoolVar(&f.exact, "exact", false, "a * at the end of the name is a part of it")
	cmd.Flags().BoolVar(&f.override, "override", false, "even if it belongs to a configuration file")
}

func (f *entryFlags) entry(name string) client.Limit {
	l := client.Limit{Key: name, Rate: f.rate}
	if !f.exact {
		l.Key, l.Prefix = strings.CutSuffix(name, "*")
	}
	return l
}

func (a *app) limitsSet() *cobra.Command {
	var f entryFlags
	cmd := &cobra.Command{
		Use: "set NAME LIMIT", Short: "set the limit of a key or a rate, or of all that begin so",
		Long:    "Set how many jobs hold a key at once (0: none starts), or with --rate how many\nstart in a window. It counts before what the jobs say themselves. A name that\nends in * is a prefix. Jobs that may start by it start at once.",
		Example: "  weir limits set account:42 2\n  weir limits set 'tenant:*' 3\n  weir limits set --rate stripe 100/s",
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			l := f.entry(args[0])
			var err error
			if f.rate {
				l.N, l.Per, err = parseRate(args[1])
			} else if l.N, err = strconv.Atoi(args[1]); err != nil {
				err = usageError{fmt.Errorf("the limit is %q, want a number (of a rate: --rate NAME 100/s)", args[1])}
			}
			if err != nil {
				return err
			}
			return a.connect(cmd.Context(), func(s *session) error {
				if err := owned(s.SetLimit(cmd.Context(), l, f.override)); err != nil {
					return err
				}
				if a.json {
					return a.printJSON(l)
				}
				a.print("%s  %s\n", escape(args[0]), escape(args[1]))
				return nil
			})
		},
	}
	f.on(cmd)
	return cmd
}

func (a *app) limitsUnset() *cobra.Command {
	var f entryFlags
	cmd := &cobra.Command{
		Use: "unset NAME...", Short: "take entries away: what jobs say themselves counts again", Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.connect(cmd.Context(), func(s *session) error {
				for _, name := range args {
					l := f.entry(name)
					if err := owned(s.UnsetLimit(cmd.Context(), l, f.override)); err != nil {
						return err
					}
					if a.json {
						if err := a.printJSON(map[string]any{"key": l.Key, "prefix": l.Prefix, "rate": l.Rate, "done": "unset"}); err != nil {
							return err
						}
						continue
					}
					a.print("%s  unset\n", escape(name))
				}
				return nil
			})
		},
	}
	f.on(cmd)
	return cmd
}

// owned says what can be done about an entry of a configuration file.
func owned(err error) error {
	var o *client.OwnedError
	if errors.As(err, &o) {
		return ownedByFile{fmt.Errorf("%w\n-> change it there, or add --override", err)}
	}
	return err
}

// ownedByFile is a change that was refused.
type ownedByFile struct{ error }

func (e ownedByFile) Unwrap() error { return e.error }

// parseRate reads N/PER: 100/s, 5/250ms, 1000/1h.
func parseRate(text string) (n int, per time.Duration, err error) {
	number, window, ok := strings.Cut(text, "/")
	n, errN := strconv.Atoi(number)
	if window == "s" || window == "m" || window == "h" {
		window = "1" + window
	}
	per, errPer := time.ParseDuration(window)
	if !ok || errN != nil || errPer != nil {
		return 0, 0, usageError{fmt.Errorf("the rate is %q, want one such as 100/s, 5/250ms or 1000/1h", text)}
	}
	return n, per, nil
}
