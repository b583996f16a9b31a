package cli

import (
	"context"
	"encoding/json"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/duehook/duehook/client"
)

func (a *app) schedule() *cobra.Command {
	return parent("schedule", "List, put, preview, pause, resume, skip, run and delete schedules",
		a.listSchedules(), a.putSchedule(), a.previewSchedule(), a.pauseSchedule(),
		a.skipOccurrence("skip", "Skip the next occurrence of a schedule", "skip this occurrence", (*client.Client).SkipOccurrence),
		a.skipOccurrence("unskip", "Skip no occurrence of a schedule any more", "only this occurrence", (*client.Client).UnskipOccurrence),
		a.named("get", "Show a schedule", func(ctx context.Context, name string) error {
			return a.scheduleLine(a.client.Schedule(ctx, name))
		}),
		a.named("runs", "List the last runs of a schedule", func(ctx context.Context, name string) error {
			return table(a, a.client.Runs(ctx, name), 100, "PLANNED OUTCOME ATTEMPTS DURATION RESULT JOB", func(r client.Run) []string {
				result := firstOf(r.Error, r.Reason)
				if r.Error == "" && r.Status != 0 {
					result = strconv.Itoa(r.Status)
				}
				took := client.Duration(time.Duration(r.DurationMS) * time.Millisecond)
				return []string{a.when(r.Time), string(r.Outcome), strconv.Itoa(r.Attempts), took.String(), result, r.Topic + "/" + r.ID}
			})
		}),
		a.named("resume", "Continue with the next occurrence", func(ctx context.Context, name string) error {
			return a.scheduleLine(a.client.ResumeSchedule(ctx, name))
		}),
		a.named("run", "Register the job of a schedule now, or one for each member of its group", func(ctx context.Context, name string) error {
			r, err := a.client.RunSchedule(ctx, name)
			return a.one(err, func() {
				if r.GroupID == "" {
					r.Jobs = append(r.Jobs, r.RegisteredJob)
				}
				a.registered(r.Jobs...)
			})
		}),
		a.deletion("Delete a schedule", (*client.Client).DeleteSchedule),
	)
}

func (a *app) scheduleLine(s client.Schedule, err error) error {
	return a.one(err, func() {
		next := ""
		for _, o := range s.Next {
			if o.Skipped {
				next += ", skips " + o.Local
			} else if s.Paused == nil {
				next = ", next " + a.when(o.DueAt) + " (" + o.Local + ")" + next
				break
			}
		}
		a.printf("%s  %s%s%s\n", s.Name, s.State, pauseText(s.Paused), next)
		a.printf("  %s -> %s\n", firstOf(s.Cron, "every "+s.Every.String()), request(s.Job.Pull, s.Job.Method, s.Job.URL))
	})
}

func (a *app) listSchedules() *cobra.Command {
	q, limit := client.ScheduleQuery{}, 100
	cmd := &cobra.Command{
		Use: "ls", Short: "List schedules", Args: cobra.NoArgs,
		RunE: a.connected(func(ctx context.Context, _ []string) error {
			return table(a, a.client.Schedules(ctx, q), limit, "SCHEDULE STATE TIMETABLE NEXT URL", func(s client.Schedule) []string {
				next := a.when(s.NextAt)
				if s.Paused != nil {
					next = "-"
				}
				return []string{s.Name, s.State, firstOf(s.Cron, "every "+s.Every.String()), next, s.Job.URL}
			})
		}),
	}
	cmd.Flags().StringSliceVar(&q.State, "state", nil, "active, paused or completed")
	cmd.Flags().StringVar(&q.Topic, "topic", "", "only schedules of this topic")
	numberFlag(cmd, &limit, "limit", 1, "the most schedules to list")
	return cmd
}

// timetable is the flags of a schedule.
type timetable struct {
	cron, every, zone, topic, body string
	except                         client.Except
}

func (t *timetable) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&t.cron, "cron", "", "cron expression, such as \"30 2 * * *\"")
	cmd.Flags().StringVar(&t.every, "every", "", "interval, such as 90s")
	cmd.Flags().StringVar(&t.zone, "timezone", "", "IANA time zone (default UTC)")
	cmd.Flags().StringSliceVar(&t.except.Dates, "except", nil, "dates without occurrences, such as 2026-12-25 or 2026-12-24/2027-01-02")
	cmd.Flags().StringVar(&t.topic, "topic", "", "topic of the jobs")
	cmd.Flags().StringVar(&t.body, "body", "", "JSON body of the jobs")
}

func (t *timetable) draft(url string) (d client.ScheduleDraft, err error) {
	d = client.ScheduleDraft{Cron: t.cron, Timezone: t.zone, Job: client.Registration{URL: url, Topic: t.topic}}
	if len(t.except.Dates) > 0 {
		d.Except = &t.except
	}
	if err := duration("--every", t.every, &d.Every, nil); err != nil {
		return d, err
	}
	if t.body != "" {
		if !json.Valid([]byte(t.body)) {
			return d, usagef("--body is not JSON; put other bodies with --file")
		}
		d.Job.Body = json.RawMessage(t.body)
	}
	return d, nil
}

func (a *app) putSchedule() *cobra.Command {
	t, file := &timetable{}, ""
	cmd := &cobra.Command{
		Use: "put NAME [URL]", Short: "Create or replace a schedule", Args: cobra.RangeArgs(1, 2),
		Example: "  duehook schedule put nightly https://shop.example/report --cron '30 2 * * *' --timezone Europe/Berlin\n  duehook schedule put nightly --file nightly.json",
		RunE: a.connected(func(ctx context.Context, args []string) error {
			if (file == "") == (len(args) == 1) {
				return usagef("name either a URL or a --file")
			}
			var draft client.ScheduleDraft
			var err error
			if file != "" {
				draft, err = a.readSchedule(file)
			} else {
				draft, err = t.draft(args[1])
			}
			if err != nil {
				return err
			}
			return a.scheduleLine(a.client.PutSchedule(ctx, args[0], draft))
		}),
	}
	t.flags(cmd)
	cmd.Flags().StringVar(&file, "file", "", "read the schedule from this file, as the API takes it; - is standard input")
	return cmd
}

// readSchedule reads a file that has a schedule.
func (a *app) readSchedule(name string) (client.ScheduleDraft, error) {
	type plain client.ScheduleDraft
	var draft struct {
		plain
		Job json.RawMessage `json:"job"`
	}
	err := a.readJSON(name, &draft)
	if err == nil && draft.Job != nil {
		if draft.plain.Job, err = registrationOf(draft.Job); err != nil {
			err = usagef("--file %s: job: %v", name, err)
		}
	}
	return client.ScheduleDraft(draft.plain), err
}

// readJSON reads a file that has what the API takes.
func (a *app) readJSON(name string, to any) error {
	data, err := a.readAll(name)
	if err == nil {
		err = strict(data, to)
	}
	if err != nil {
		return usagef("--file %s: %v", name, err)
	}
	return nil
}

func (a *app) previewSchedule() *cobra.Command {
	t, n := &timetable{}, 10
	cmd := &cobra.Command{
		Use: "preview [NAME]", Short: "Show the next occurrences of a timetable or a schedule", Args: cobra.MaximumNArgs(1),
		RunE: a.connected(func(ctx context.Context, args []string) error {
			var times client.Timetable
			var err error
			if len(args) == 1 && t.cron == "" && t.every == "" {
				times, err = a.client.Occurrences(ctx, args[0], client.OccurrenceQuery{Paging: client.Paging{Limit: n}})
			} else {
				var draft client.ScheduleDraft
				if draft, err = t.draft(""); err != nil {
					return err
				}
				times, err = a.client.PreviewSchedule(ctx, client.PreviewOf(draft, n))
			}
			return a.one(err, func() {
				for _, o := range times.Data {
					effect := o.Effect
					if o.Skipped {
						effect = "skipped"
					}
					a.printf("%s  %s  %s\n", o.Local, a.when(o.DueAt), effect)
				}
				for _, o := range times.Omitted {
					a.printf("not %s  %s\n", o.Local, o.Reason)
				}
			})
		}),
	}
	t.flags(cmd)
	numberFlag(cmd, &n, "limit", 1, "the number of occurrences")
	return cmd
}

func (a *app) pauseSchedule() *cobra.Command {
	var until, note string
	cmd := a.named("pause", "Pause a schedule", func(ctx context.Context, name string) error {
		o, err := a.pauseOptions(ctx, until, note)
		if err != nil {
			return err
		}
		return a.scheduleLine(a.client.PauseSchedule(ctx, name, o))
	})
	pauseFlags(cmd, &until, &note)
	return cmd
}

func (a *app) skipOccurrence(use, short, which string, call func(*client.Client, context.Context, string, time.Time, ...client.CallOption) (client.Schedule, error)) *cobra.Command {
	at := ""
	cmd := a.named(use, short, func(ctx context.Context, name string) error {
		var t time.Time
		if at != "" {
			var err error
			if t, err = a.moment(ctx, at); err != nil {
				return err
			}
		}
		return a.scheduleLine(call(a.client, ctx, name, t))
	})
	cmd.Flags().StringVar(&at, "time", "", which+", such as 2026-12-25T02:30:00+01:00")
	return cmd
}

func (a *app) group() *cobra.Command {
	limit := 100
	list := &cobra.Command{
		Use: "ls", Short: "List groups", Args: cobra.NoArgs,
		RunE: a.connected(func(ctx context.Context, _ []string) error {
			return table(a, a.client.Groups(ctx, client.Paging{}), limit, "GROUP MEMBERS VERSION", func(g client.Group) []string {
				return []string{g.Name, strconv.Itoa(len(g.Members)), strconv.FormatUint(g.Version, 10)}
			})
		}),
	}
	numberFlag(list, &limit, "limit", 1, "the most groups to list")
	file := ""
	put := a.named("put", "Create or replace a group", func(ctx context.Context, name string) error {
		var draft struct {
			Members []client.Member `json:"members"`
		}
		if err := a.readJSON(file, &draft); err != nil {
			return err
		}
		return a.groupLines(a.client.PutGroup(ctx, name, draft.Members))
	})
	put.Flags().StringVar(&file, "file", "-", `file with {"members":[{"name":…,"url":…}]}; - is standard input`)
	part, most := "", 100
	members := a.named("members", "List the members of a group by name", func(ctx context.Context, name string) error {
		return table(a, a.client.Members(ctx, name, client.MemberQuery{Q: part}), most, "MEMBER URL LABEL", func(m client.Member) []string {
			return []string{m.Name, m.URL, dash(m.FilterLabel)}
		})
	})
	members.Flags().StringVar(&part, "find", "", "a part of the name, of the filter label, or of scheme, host and port of the URL")
	numberFlag(members, &most, "limit", 1, "the most members to list")
	return parent("group", "List, show, put and delete groups", list, members, put,
		a.named("get", "Show a group", func(ctx context.Context, name string) error { return a.groupLines(a.client.Group(ctx, name)) }),
		a.deletion("Delete a group; its jobs stay", (*client.Client).DeleteGroup),
	)
}

func (a *app) groupLines(g client.Group, err error) error {
	return a.one(err, func() {
		a.printf("%s  %d members, version %d\n", g.Name, len(g.Members), g.Version)
		for _, m := range g.Members {
			a.printf("  %s  %s  %s\n", m.Name, m.URL, m.FilterLabel)
		}
	})
}

func (a *app) alert() *cobra.Command {
	limit := 100
	list := &cobra.Command{
		Use: "ls", Short: "List firing alerts", Args: cobra.NoArgs,
		RunE: a.connected(func(ctx context.Context, _ []string) error {
			return table(a, a.client.Alerts(ctx, client.Paging{}), limit, "RULE METRIC VALUE SUBJECT FIRED", func(x client.Alert) []string {
				return []string{
					x.Rule, x.Metric, strconv.FormatFloat(x.Value, 'f', -1, 64), dash(firstOf(x.Topic, x.Endpoint, x.Node, x.Trouble)), a.when(x.FiredAt),
				}
			})
		}),
	}
	numberFlag(list, &limit, "limit", 1, "the most alerts to list")
	rules := &cobra.Command{
		Use: "rules", Short: "List alert rules", Args: cobra.NoArgs,
		RunE: a.connected(func(ctx context.Context, _ []string) error {
			return table(a, a.client.Rules(ctx, client.Paging{}), limit, "RULE METRIC ABOVE WINDOW URL", func(r client.Rule) []string {
				above := "-"
				if r.Above != nil {
					above = strconv.FormatFloat(*r.Above, 'f', -1, 64)
				}
				window := "-"
				if r.Window != 0 {
					window = r.Window.String()
				}
				return []string{r.Name, r.Metric, above, window, dash(r.URL)}
			})
		}),
	}
	numberFlag(rules, &limit, "limit", 1, "the most rules to list")
	file := ""
	put := a.named("put", "Create or replace an alert rule", func(ctx context.Context, name string) error {
		var draft client.RuleDraft
		if err := a.readJSON(file, &draft); err != nil {
			return err
		}
		r, err := a.client.PutRule(ctx, name, draft)
		return a.one(err, func() { a.printf("%s  %s\n", r.Name, r.Metric) })
	})
	put.Flags().StringVar(&file, "file", "-", `file with {"metric":…}; - is standard input`)
	return parent("alert", "List alerts; list, put and delete alert rules", list, rules, put,
		a.deletion("Delete an alert rule", (*client.Client).DeleteRule),
	)
}
