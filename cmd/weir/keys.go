package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/weirq/weir/pkg/client"
)

var _ = add(keysCommand)

func keysCommand(a *app) *cobra.Command {
	var (
		prefix string
		limit  int
	)
	cmd := &cobra.Command{Use: "keys", Short: "look at keys: who has them and who waits"}
	list := &cobra.Command{
		Use: "list", Short: "list the keys that jobs have or wait for, longest lines first", Args: cobra.NoArgs,
		Long: "List the keys that jobs have or wait for, the longest lines first. run is how\nmany jobs run with the key; kept is how many have it and do not run: the next in\nline, or one that was released a moment ago; wait is how many are blocked.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.connect(cmd.Context(), func(s *session) error { return a.listKeys(cmd.Context(), s, prefix, limit) })
		},
	}
	list.Flags().StringVar(&prefix, "prefix", "", "keys whose names begin so")
	list.Flags().IntVar(&limit, "limit", 50, "at most so many")
	cmd.AddCommand(list, &cobra.Command{
		Use: "show KEY", Short: "show who has a key, who waits for it, and what its limit is", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.connect(cmd.Context(), func(s *session) error { return a.showKey(cmd.Context(), s, args[0]) })
		},
	})
	return cmd
}

func (a *app) listKeys(ctx context.Context, s *session, prefix string, limit int) error {
	keys, err := s.Keys(ctx, prefix, limit)
	if err != nil {
		return err
	}
	var rows [][]string
	for _, k := range keys {
		if a.json {
			if err := a.printJSON(k); err != nil {
				return err
			}
			continue
		}
		rows = append(rows, []string{shorten(k.Key, 44), number(k.Running), number(k.Kept), number(k.Waiting)})
	}
	switch {
	case a.json:
	case len(rows) == 0:
		a.print("nobody has a key, and nobody waits for one\n")
	default:
		a.table([]string{"key", ">run", ">kept", ">wait"}, rows)
	}
	return nil
}

func (a *app) showKey(ctx context.Context, s *session, name string) error {
	d, err := s.Key(ctx, name)
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(d)
	}
	a.print("key %s\n", shorten(d.Name, 70))
	if d.Limit > 0 || d.Entry != nil || len(d.Holders) > 0 {
		a.print("%s   holders %d   waiting %d   %s\n", limitOfKey(&d), len(d.Holders), d.Waiting, redisText(d.Redis))
	} else {
		a.print("nobody has it, and nobody waits for it\n")
	}
	for i := range d.Holders {
		h := &d.Holders[i]
		a.print("slot %-3d %s\n", h.Slot, holderLine(h))
		a.holderDetails("         ", h)
	}
	for i, w := range d.Line {
		lead := ""
		if i == 0 {
			lead = "line"
		}
		a.print("%-4s %-3d %s %s  waits %s\n", lead, i+1, w.ID, shorten(w.Kind, 24), span(w.Waits))
	}
	if n := d.Waiting - len(d.Line); n > 0 {
		a.print("         and %s more\n", number(int64(n)))
	}
	if d.Of > 0 {
		a.print("the last %s took %s each\n", plural(d.Of, "holder"), span(d.Took))
	}
	if r := d.Rate; r != nil {
		state := "open"
		if r.Held > 0 {
			state = "closed for " + span(r.Held)
		}
		what := "as its jobs say"
		if r.Entry != nil {
			what = limitOfRate(r)
		}
		a.print("rate of this name: %s, %s\n", what, state)
	}
	if d.Waiting > len(d.Line) {
		a.advise(commandOn("weir jobs list --state blocked --key", d.Name))
	}
	return nil
}

func redisText(r client.Agreement) string {
	switch r {
	case client.RedisOff:
		return "Redis is not used"
	case client.RedisAway:
		return "Redis does not answer"
	case client.RedisDiffers:
		return "Redis differs"
	}
	return "Postgres and Redis agree"
}
