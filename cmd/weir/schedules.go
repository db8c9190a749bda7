package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirq/weir/pkg/client"
	"github.com/weirq/weir/pkg/job"
)

var _ = add(schedulesCommand)

func schedulesCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{Use: "schedules", Short: "look at schedules, run one now, switch them on and off"}
	cmd.AddCommand(
		&cobra.Command{
			Use: "list", Short: "list schedules and when they are due", Args: cobra.NoArgs,
			Long: "List schedules. next is how long it is until the next job, with a - when it is\noverdue; last is how long ago the last one was due. An ! marks a schedule that\nneeds a look.",
			RunE: func(cmd *cobra.Command, _ []string) error {
				return a.connect(cmd.Context(), func(s *session) error { return a.listSchedules(cmd.Context(), s) })
			},
		},
		&cobra.Command{
			Use: "show NAME", Short: "show all that is known of a schedule", Args: cobra.ExactArgs(1),
			RunE: func(cmd *cobra.Command, args []string) error {
				return a.connect(cmd.Context(), func(s *session) error { return a.showSchedule(cmd.Context(), s, args[0]) })
			},
		},
		&cobra.Command{
			Use: "run NAME", Short: "add a schedule's job now; its next one stays as it is", Args: cobra.ExactArgs(1),
			RunE: func(cmd *cobra.Command, args []string) error {
				return a.connect(cmd.Context(), func(s *session) error { return a.runSchedule(cmd.Context(), s, args[0]) })
			},
		},
		a.scheduleAct("enable", "make schedules fire again, from their next time on", "enabled", (*client.Client).EnableSchedule),
		a.scheduleAct("disable", "stop schedules from firing", "disabled", (*client.Client).DisableSchedule),
		a.deleteSchedules(),
		a.forgetSchedules(),
	)
	return cmd
}

// scheduleAct is a command that does one thing to each schedule named.
func (a *app) scheduleAct(verb, short, past string, do func(*client.Client, context.Context, string) error) *cobra.Command {
	return &cobra.Command{
		Use: verb + " NAME...", Short: short, Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, names []string) error {
			return a.connect(cmd.Context(), func(s *session) error {
				for _, name := range names {
					if err := do(s.Client, cmd.Context(), name); err != nil {
						return err
					}
					if a.json {
						if err := a.printJSON(map[string]any{"schedule": name, past: true}); err != nil {
							return err
						}
						continue
					}
					a.print("schedule %s  %s\n", escape(name), past)
				}
				return nil
			})
		},
	}
}

func (a *app) deleteSchedules() *cobra.Command {
	cmd := a.scheduleAct("delete", "forget schedules until their owner declares them", "deleted", (*client.Client).DeleteSchedule)
	cmd.Long = "Forget schedules. A program or configuration that declares one brings it back\nwhen it starts: take it out there, or disable it here."
	return cmd
}

func (a *app) forgetSchedules() *cobra.Command {
	return &cobra.Command{
		Use: "rollback OWNER", Short: "let an older release declare its schedules again", Args: cobra.ExactArgs(1),
		Long: "Forget which release of OWNER was the newest to declare its schedules, so that\nan older one wins when it starts next. No schedule is changed now.",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.connect(cmd.Context(), func(s *session) error {
				if err := s.ForgetSchedules(cmd.Context(), args[0]); err != nil {
					return err
				}
				if a.json {
					return a.printJSON(map[string]any{"owner": args[0], "rollback": true})
				}
				a.print("owner %s  the next to declare its schedules wins\n", escape(args[0]))
				return nil
			})
		},
	}
}

type scheduleJSON struct {
	Name       string          `json:"name"`
	Owner      string          `json:"owner"`
	Version    int64           `json:"owner_version"`
	Kind       string          `json:"kind"`
	Queue      string          `json:"queue"`
	Cron       string          `json:"cron,omitempty"`
	Zone       string          `json:"zone,omitempty"`
	Every      float64         `json:"every_seconds,omitempty"`
	Misfire    string          `json:"misfire"`
	MisfireCap int             `json:"misfire_cap"`
	Enabled    bool            `json:"enabled"`
	ByHand     bool            `json:"by_hand,omitempty"` // whether a person said so
	NextAt     time.Time       `json:"next_at,omitzero"`
	LastAt     time.Time       `json:"last_at,omitzero"`
	LastJob    job.ID          `json:"last_job,omitzero"`
	Error      string          `json:"error,omitempty"`
	Payload    json.RawMessage `json:"payload,omitempty"`
}

func scheduleOf(i *client.ScheduleInfo) scheduleJSON {
	return scheduleJSON{
		i.Name, i.Owner, i.Version, i.Kind, i.Queue, i.Rhythm.Cron, i.Rhythm.Zone, i.Rhythm.Every.Seconds(), i.Rhythm.Misfire, i.Rhythm.MisfireCap,
		i.Enabled(), i.Override != nil, i.NextAt, i.LastAt, i.LastJob, i.Error, nil,
	}
}

func (a *app) listSchedules(ctx context.Context, s *session) error {
	list, err := s.Schedules(ctx)
	if err != nil {
		return err
	}
	var rows [][]string
	var notes []string
	for i := range list {
		c := &list[i]
		if a.json {
			if err := a.printJSON(scheduleOf(c)); err != nil {
				return err
			}
			continue
		}
		mark := ""
		if note := scheduleNote(c); note != "" {
			mark, notes = "!", append(notes, note)
		}
		rows = append(rows, []string{shorten(c.Name, 16), shorten(rhythmText(c), 18), shorten(c.Kind, 14), nextText(c), lastText(c), shorten(c.Owner, 8), mark})
	}
	switch {
	case a.json:
	case len(rows) == 0:
		a.print("no schedule is declared\n")
	default:
		a.table([]string{"name", "when", "kind", ">next", ">last", "owner", ""}, rows)
		for _, n := range notes {
			a.print("! %s\n", n)
		}
	}
	return nil
}

func rhythmText(c *client.ScheduleInfo) string {
	switch {
	case c.Rhythm.Every > 0:
		return "every " + c.Rhythm.Every.String()
	case c.Rhythm.Zone != "":
		return c.Rhythm.Cron + " " + c.Rhythm.Zone
	}
	return c.Rhythm.Cron
}

func nextText(c *client.ScheduleInfo) string {
	switch {
	case !c.Enabled():
		return "off"
	case c.NextAt.IsZero():
		return "never"
	}
	return span(c.NextAt.Sub(c.Now))
}

func lastText(c *client.ScheduleInfo) string {
	if c.LastAt.IsZero() {
		return "-"
	}
	return span(c.Now.Sub(c.LastAt))
}

// overdue is how late a schedule may be before somebody should look.
const overdue = 10 * time.Second

// scheduleNote says what about a schedule needs a look.
func scheduleNote(c *client.ScheduleInfo) string {
	name := shorten(c.Name, 40)
	switch {
	case c.Error != "":
		return fmt.Sprintf("%s: its last job was refused: %s", name, shorten(c.Error, 60))
	case c.Enabled() && !c.NextAt.IsZero() && c.Now.Sub(c.NextAt) > overdue:
		return fmt.Sprintf("%s is overdue: no sweeper fires it -> weir workers list, and the sweeper's log", name)
	case !c.Enabled() && c.Override != nil:
		return fmt.Sprintf("%s was disabled by hand -> weir schedules enable %s", name, name)
	}
	return ""
}

func (a *app) showSchedule(ctx context.Context, s *session, name string) error {
	c, err := s.Schedule(ctx, name)
	if err != nil {
		return err
	}
	if a.json {
		full := scheduleOf(&c)
		full.Payload = c.Payload
		return a.printJSON(full)
	}
	state := "enabled"
	if !c.Enabled() {
		state = "disabled"
	}
	if c.Override != nil {
		state += " by hand"
	}
	a.print("%s  %s  %s\n", escape(c.Name), escape(c.Kind), state)
	a.print("when     %s\n", escape(rhythmText(&c)))
	a.print("misfire  %s\n", misfireText(&c))
	a.print("queue    %s\n", escape(c.Queue))
	a.print("owner    %s, version %d\n", escape(c.Owner), c.Version)
	a.print("payload  %s\n", shorten(string(c.Payload), 300))
	if c.NextAt.IsZero() {
		a.print("next     never\n")
	} else {
		a.print("next     %s, in %s\n", c.NextAt.UTC().Format(time.RFC3339), span(c.NextAt.Sub(c.Now)))
	}
	if !c.LastAt.IsZero() {
		a.print("last     %s, job %s\n", c.LastAt.UTC().Format(time.RFC3339), c.LastJob)
	}
	if c.Error != "" {
		a.print("error    %s\n", escape(c.Error))
	}
	return nil
}

func misfireText(c *client.ScheduleInfo) string {
	if c.Rhythm.Misfire == string(client.MisfireAll) {
		return fmt.Sprintf("all, at most %d", c.Rhythm.MisfireCap)
	}
	return c.Rhythm.Misfire
}

func (a *app) runSchedule(ctx context.Context, s *session, name string) error {
	e, err := s.RunSchedule(ctx, name)
	if errors.Is(err, client.ErrNotFound) {
		return fmt.Errorf("schedule %q: %w", name, client.ErrNotFound)
	}
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(enqueuedJSON{ID: e.ID, Duplicate: e.Duplicate})
	}
	if e.Duplicate {
		a.print("its unique key is taken: nothing was added\n")
		return nil
	}
	a.print("%s\n", e.ID)
	return nil
}
