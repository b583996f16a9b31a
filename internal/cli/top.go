package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/duehook/duehook/client"
)

const (
	// topEvery is how often the page is read again, topCalls how many calls at once.
	topEvery = 2 * time.Second
	topCalls = 4
	topWait  = 10 * time.Second
	// topPage is the most topics or jobs that are read, topDue the most due jobs that are counted.
	topPage = 500
	topDue  = 100
)

// topTabs are the lists of a topic's jobs.
var topTabs = []client.State{client.StateWaiting, client.StateRetrying, client.StateReady, client.StateRunning, client.StateDead, client.StateDelivered}

func (a *app) top() *cobra.Command {
	return &cobra.Command{
		Use: "top", Short: "Watch topics and their jobs, and act on them", Args: cobra.NoArgs,
		RunE: a.connected(func(ctx context.Context, _ []string) error {
			if !a.Interactive || a.json {
				return usagef("top needs a terminal; duehook topics --json is for programs")
			}
			ctx, stop := context.WithCancel(ctx)
			defer stop()
			counts := &eventCounts{}
			var counting sync.WaitGroup
			counting.Go(func() { counts.run(ctx, a.client) })
			defer counting.Wait()
			defer stop()
			m := &topModel{a: a, ctx: ctx, counts: counts, width: 80, height: 24}
			_, err := tea.NewProgram(m, tea.WithContext(ctx), tea.WithInput(a.In), tea.WithOutput(a.Err), tea.WithEnvironment(a.Environ)).Run()
			if err != nil && ctx.Err() == nil {
				return fmt.Errorf("the page ended: %w", err)
			}
			return nil
		}),
	}
}

// eventCounts counts attempts by topic, from the stream of events.
type eventCounts struct {
	mu     sync.Mutex
	topics map[string]int
	failed bool // the stream ended
}

func (c *eventCounts) run(ctx context.Context, from *client.Client) {
	for e, err := range from.Events(ctx, client.EventQuery{Type: []string{"delivered", "failed", "dead"}}) {
		if err != nil {
			break
		}
		c.add(e.Topic)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failed = true
}

func (c *eventCounts) add(topic string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.topics == nil {
		c.topics = map[string]int{}
	}
	c.topics[topic]++
}

// take returns the counts since the last call; nil: nobody counts.
func (c *eventCounts) take() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failed {
		return nil
	}
	taken := c.topics
	c.topics = map[string]int{}
	if taken == nil {
		taken = map[string]int{}
	}
	return taken
}

// topTopic is a line of the first page.
type topTopic struct {
	client.Topic
	due  int           // up to topDue; negative: unknown
	late time.Duration // of the job that is longest due, among those that were counted
	rate float64       // attempts per second; negative: unknown
}

func (t *topTopic) waiting() int64 {
	return t.States[client.StateWaiting] + t.States[client.StateRetrying]
}

func (t *topTopic) inFlight() int64 {
	return t.States[client.StateReady] + t.States[client.StateRunning]
}

// The messages of the model: what was read, what was done, and that it is time to read again.
type (
	topTopics []topTopic
	topJobs   struct {
		topic string
		state client.State
		jobs  []client.Job
	}
	topJob  client.Explanation
	topDone string
	topFail struct{ err error }
	topTick struct{}
)

// topModel is the page: all topics, the jobs of one, or one job.
type topModel struct {
	a             *app
	ctx           context.Context //nolint:containedctx // the model's commands get none
	counts        *eventCounts
	width, height int

	topics []topTopic
	jobs   []client.Job
	job    *client.Explanation
	topic  string // its jobs are shown; empty: all topics
	id     string // of the job that is shown; empty: none
	tab    int
	// row is the selected line, rows the one of the page before.
	row, rows int

	note string       // what was done, or what failed
	ask  string       // a question that y answers
	yes  func() error // what y does
	done string       // and what is said then

	readAt time.Time // of the topics
}

func (m *topModel) Init() tea.Cmd { return tea.Batch(m.read(), m.tick()) }

func (m *topModel) tick() tea.Cmd {
	return tea.Tick(topEvery, func(time.Time) tea.Msg { return topTick{} })
}

// read reads what the page shows.
func (m *topModel) read() tea.Cmd {
	topic, id, state, row, lines := m.topic, m.id, topTabs[m.tab], m.row, m.lines()
	now := m.a.Clock.Now()
	since := now.Sub(m.readAt)
	if topic == "" {
		m.readAt = now
	}
	return m.call(func(ctx context.Context) (tea.Msg, error) {
		switch {
		case id != "":
			e, err := m.a.client.Explain(ctx, topic, id)
			return topJob(e), err
		case topic != "":
			q := client.JobQuery{JobFilter: client.JobFilter{Topic: topic, State: []client.State{state}}, Paging: client.Paging{Limit: topPage}, Order: "due"}
			if state.Final() {
				q.Order = ""
			}
			page, err := m.a.client.JobPage(ctx, q)
			return topJobs{topic, state, page.Data}, err
		}
		topics, err := m.readTopics(ctx, since, row, lines)
		return topTopics(topics), err
	})
}

// call is a command of the model that makes calls.
func (m *topModel) call(do func(context.Context) (tea.Msg, error)) tea.Cmd {
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(m.ctx, topWait)
		defer cancel()
		msg, err := do(ctx)
		if err != nil {
			return topFail{err}
		}
		return msg
	}
}

// readTopics reads the topics, the busiest first, with the due jobs of those on the lines around a
// row.
func (m *topModel) readTopics(ctx context.Context, since time.Duration, row, lines int) ([]topTopic, error) {
	topics, err := m.everyTopic(ctx)
	if err != nil {
		return nil, err
	}
	sort.Slice(topics, func(i, j int) bool {
		a, b := &topics[i], &topics[j]
		return cmp.Or(cmp.Compare(b.waiting()+b.inFlight(), a.waiting()+a.inFlight()), cmp.Compare(a.Name, b.Name)) < 0
	})
	rates := m.counts.take()
	first := firstLine(row, lines, len(topics))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(topCalls)
	for i := range topics {
		t := &topics[i]
		if rates != nil && since > 0 && since < time.Minute {
			t.rate = float64(rates[t.Name]) / since.Seconds()
		}
		switch {
		case t.waiting() == 0:
			t.due = 0
		case i >= first && i < first+lines:
			group.Go(func() error { return m.countDue(ctx, t) })
		}
	}
	return topics, group.Wait()
}

// everyTopic reads the busiest topics and, up to topPage, those of the first names.
func (m *topModel) everyTopic(ctx context.Context) ([]topTopic, error) {
	var topics []topTopic
	known := map[string]bool{}
	for _, q := range []client.TopicQuery{{Order: mostUnfinished}, {Paging: client.Paging{Limit: topPage}}} {
		for t, err := range m.a.client.Topics(ctx, q) {
			if err != nil {
				return nil, err
			}
			if !known[t.Name] {
				known[t.Name] = true
				topics = append(topics, topTopic{Topic: t, due: -1, rate: -1})
			}
			if len(topics) == topPage {
				break
			}
		}
	}
	return topics, nil
}

// countDue counts the jobs of a topic that are due and wait.
func (m *topModel) countDue(ctx context.Context, t *topTopic) error {
	now := m.a.now()
	page, err := m.a.client.JobPage(ctx, client.JobQuery{
		JobFilter: client.JobFilter{Topic: t.Name, State: []client.State{client.StateWaiting, client.StateRetrying}, DueTo: now},
		Paging:    client.Paging{Limit: topDue},
	})
	t.due = len(page.Data)
	for i := range page.Data {
		t.late = max(t.late, now.Sub(page.Data[i].NextAt))
	}
	return err
}

// lines is how many lines of a list fit between header and footer.
func (m *topModel) lines() int { return max(m.height-6, 1) }

func (m *topModel) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case tea.KeyPressMsg:
		return m, m.key(msg.String())
	case topTick:
		return m, tea.Batch(m.read(), m.tick())
	case topTopics:
		m.keepRow(len(msg), func(selected string) int {
			return slices.IndexFunc(msg, func(t topTopic) bool { return t.Name == selected })
		})
		m.topics = msg
	case topJobs:
		if msg.topic == m.topic && msg.state == topTabs[m.tab] && m.id == "" {
			m.keepRow(len(msg.jobs), func(selected string) int {
				return slices.IndexFunc(msg.jobs, func(j client.Job) bool { return j.ID == selected })
			})
			m.jobs = msg.jobs
		}
	case topJob:
		if e := client.Explanation(msg); e.Job.ID == m.id {
			m.job = &e
		}
	case topDone:
		m.note = string(msg)
		return m, m.read()
	case topFail:
		m.note = msg.err.Error()
	}
	return m, nil
}

// selected is the name of the selected topic, or the id of the selected job.
func (m *topModel) selected() string {
	switch {
	case m.id != "":
		return m.id
	case m.topic != "" && m.row < len(m.jobs):
		return m.jobs[m.row].ID
	case m.topic == "" && m.row < len(m.topics):
		return m.topics[m.row].Name
	}
	return ""
}

// keepRow keeps the selection on its line when a list of n lines replaces the one before.
func (m *topModel) keepRow(n int, find func(selected string) int) {
	if m.topic != "" && m.id != "" { // a job is shown
		return
	}
	if at := find(m.selected()); at >= 0 {
		m.row = at
	}
	m.row = max(min(m.row, n-1), 0)
}

// key does what a key asks for.
func (m *topModel) key(key string) tea.Cmd {
	if m.ask != "" {
		yes, done := m.yes, m.done
		m.ask, m.yes = "", nil
		if key != "y" {
			return nil
		}
		return m.call(func(context.Context) (tea.Msg, error) { return topDone(done), yes() })
	}
	m.note = ""
	switch key {
	case "q", "ctrl+c":
		return tea.Quit
	case "up", "k":
		m.row = max(m.row-1, 0)
	case "down", "j":
		m.row = max(min(m.row+1, m.listed()-1), 0)
	case "enter", "right":
		return m.open()
	case "esc", "left", "backspace":
		return m.back()
	case "tab":
		if m.topic != "" && m.id == "" {
			m.tab, m.row, m.jobs = (m.tab+1)%len(topTabs), 0, nil
			return m.read()
		}
	case "p", "r", "c":
		m.act(key)
	}
	return nil
}

func (m *topModel) listed() int {
	if m.topic == "" {
		return len(m.topics)
	}
	return len(m.jobs)
}

// open shows the selected topic or job.
func (m *topModel) open() tea.Cmd {
	selected := m.selected()
	switch {
	case selected == "" || m.id != "":
		return nil
	case m.topic == "":
		m.topic, m.rows, m.row, m.jobs, m.tab = selected, m.row, 0, nil, 0
	default:
		m.id, m.job = selected, nil
	}
	return m.read()
}

func (m *topModel) back() tea.Cmd {
	switch {
	case m.id != "":
		m.id = ""
	case m.topic != "":
		m.topic, m.row = "", m.rows
	default:
		return nil
	}
	return m.read()
}

// act asks whether to pause or resume a topic, or to replay or cancel a job.
func (m *topModel) act(key string) {
	selected := m.selected()
	c, ctx, topic := m.a.client, m.ctx, m.topic
	switch {
	case selected == "":
	case key == "p" && topic == "":
		paused := m.topics[m.row].State != "active"
		m.question("pause", "paused", selected, func() error { _, err := c.PauseTopic(ctx, selected, client.PauseOptions{}); return err })
		if paused {
			m.question("resume", "resumed", selected, func() error { _, err := c.ResumeTopic(ctx, selected); return err })
		}
	case topic == "" || key == "p":
		m.note = "p pauses a topic in the list of topics; r replays and c cancels a job"
	case key == "r":
		m.question("replay", "replayed", topic+"/"+selected, func() error { _, err := c.ReplayJob(ctx, topic, selected, nil); return err })
	case m.state() == client.StateDead:
		m.note = "a dead letter is replayed with r, or discarded with duehook discard"
	default:
		m.question("cancel", "cancelled", topic+"/"+selected, func() error { _, err := c.CancelJob(ctx, topic, selected); return err })
	}
}

// state is that of the selected job.
func (m *topModel) state() client.State {
	switch {
	case m.id != "" && m.job != nil:
		return m.job.Job.State
	case m.id == "" && m.row < len(m.jobs):
		return m.jobs[m.row].State
	}
	return ""
}

func (m *topModel) question(verb, done, what string, yes func() error) {
	m.ask, m.done, m.yes = verb+" "+what+"? y/n", done+" "+what, yes
}

// View draws at most height lines of width columns, without colours.
func (m *topModel) View() tea.View {
	lines := []string{m.title(), ""}
	keys := "enter open  p pause or resume  q quit"
	switch {
	case m.id != "":
		lines = append(lines, m.jobLines()...)
		keys = "esc back  r replay  c cancel  q quit"
	case m.topic != "":
		lines = append(lines, m.list(len(m.jobs), "  "+jobColumns("JOB", "DUE OR ENDED", "TRIES", "LAST"), m.jobRow)...)
		keys = "enter open  tab next state  r replay  c cancel  esc back  q quit"
	default:
		lines = append(lines, m.list(len(m.topics), "  "+topicHeader, m.topicRow)...)
	}
	lines = lines[:min(len(lines), max(m.height-2, 1))]
	for len(lines) < m.height-2 {
		lines = append(lines, "")
	}
	lines = append(lines, firstOf(m.ask, m.note), keys)
	for i, line := range lines {
		lines[i] = cut(line, m.width)
	}
	v := tea.NewView(strings.Join(lines[max(len(lines)-m.height, 0):], "\n"))
	v.AltScreen = true
	return v
}

func (m *topModel) title() string {
	switch {
	case m.id != "":
		return "duehook  " + m.topic + "/" + m.id
	case m.topic != "":
		tabs := make([]string, len(topTabs))
		for i, state := range topTabs {
			tabs[i] = string(state)
			if i == m.tab {
				tabs[i] = "[" + tabs[i] + "]"
			}
		}
		return "duehook  " + m.topic + "  " + strings.Join(tabs, " ")
	}
	var waiting, flying, dead int64
	for i := range m.topics {
		waiting, flying, dead = waiting+m.topics[i].waiting(), flying+m.topics[i].inFlight(), dead+m.topics[i].States[client.StateDead]
	}
	more := ""
	if len(m.topics) == topPage {
		more = "+"
	}
	return fmt.Sprintf("duehook  %d%s topics  %d waiting  %d in flight  %d dead", len(m.topics), more, waiting, flying, dead)
}

// firstLine is the first of n rows that are drawn on some lines, so that a row is among them.
func firstLine(row, lines, n int) int { return max(min(row-lines+1, n-lines), 0) }

// list draws the lines around the selected one.
func (m *topModel) list(n int, header string, row func(i int) string) []string {
	lines := []string{header}
	first := firstLine(m.row, m.lines(), n)
	for i := first; i < min(first+m.lines(), n); i++ {
		mark := "  "
		if i == m.row {
			mark = "> "
		}
		lines = append(lines, mark+row(i))
	}
	if n == 0 {
		lines = append(lines, "  none")
	}
	return lines
}

const topicHeader = "TOPIC                    STATE     WAITING   DUE   LATE  FLIGHT  RATE/S   DEAD"

func (m *topModel) topicRow(i int) string {
	t := &m.topics[i]
	due, late, rate := strconv.Itoa(t.due), "-", "-"
	switch t.due {
	case -1:
		due = "-"
	case topDue:
		due += "+"
	}
	if t.late >= time.Second {
		late = short(t.late)
	}
	if t.rate >= 0 {
		rate = strconv.FormatFloat(t.rate, 'f', 1, 64)
	}
	return fmt.Sprintf("%-24s %-8s %8d  %4s %6s %7d %7s %6d", cut(t.Name, 24), t.State, t.waiting(), due, late, t.inFlight(), rate, t.States[client.StateDead])
}

func (m *topModel) jobRow(i int) string {
	j := &m.jobs[i]
	next, last := m.a.when(j.NextAt), "-"
	if j.State.Final() {
		next = m.a.when(j.EndedAt)
	}
	if j.LastAttempt != nil {
		last = answer(j.LastAttempt)
	}
	return jobColumns(j.ID, next, fmt.Sprintf("%d/%d", j.Attempts, j.MaxAttempts), last)
}

func (m *topModel) jobLines() []string {
	if m.job == nil {
		return []string{"  reading"}
	}
	j := &m.job.Job
	lines := []string{m.a.jobLine(&j.Job), request(j.Pull, j.Method, j.URL), fmt.Sprintf("attempts %d of %d", j.Attempts, j.MaxAttempts)}
	if j.LastAttempt != nil {
		lines = append(lines, "last attempt "+m.a.when(j.LastAttempt.StartedAt)+": "+answer(j.LastAttempt))
	}
	lines = append(lines, "")
	for _, r := range m.job.Reasons {
		lines = append(lines, wrapped(r.Detail, m.width-2)...)
	}
	for _, n := range m.job.Notes {
		lines = append(lines, wrapped(n.Detail, m.width-2)...)
	}
	return lines
}

func jobColumns(id, next, tries, last string) string {
	return fmt.Sprintf("%-34s %-14s %-7s %s", cut(id, 34), next, tries, last)
}

// cut shortens a text, and drops signs that would move the cursor.
func cut(text string, width int) string {
	runes := []rune(strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return -1
		}
		return r
	}, text))
	if len(runes) > width && width > 0 {
		return string(runes[:width-1]) + "~"
	}
	return string(runes)
}

// wrapped breaks a text into lines.
func wrapped(text string, width int) []string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && len(line)+1+len(word) > width {
			lines, line = append(lines, line), ""
		}
		line = strings.TrimPrefix(line+" "+word, " ")
	}
	return append(lines, line)
}
