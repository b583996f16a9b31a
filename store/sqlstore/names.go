package sqlstore

import (
	"context"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

// Expressions over the counts of a row.
const (
	unfinished = "waiting + retrying + running"
	endedJobs  = "delivered + cancelled + expired"
)

// Expressions for the names of a delta of a lane.
const (
	topicOfDelta    = "split_part(name, '|', 1)"
	endpointOfDelta = "split_part(name, '|', 3)"
)

// section is a range of names with their counts: folded ones in a table, and others in deltas.
type section struct {
	table, column string // of the folded names
	inDelta       string // the name of a delta
	deltas        string // condition for a delta
	folded        string // AND a condition without which a folded name counts nothing; empty: there is none
	count         string // names whose count is zero do not exist
	begin, end    string
	endpoint      string // of lanes; empty: any
}

// sectionOf is the section of an index of names.
func sectionOf(q *store.NameQuery) section {
	s := section{table: "lane", column: "name", inDelta: "name", deltas: "lane IS NOT NULL", count: unfinished, begin: q.From, end: behindNames}
	switch q.Kind {
	case store.TopicNames:
		s.table, s.column, s.inDelta, s.count = "topic", "topic", topicOfDelta, unfinished+" + dead + "+endedJobs
		return s
	case store.EndedNames:
		s.table, s.column, s.inDelta, s.count = "topic", "topic", topicOfDelta, endedJobs
		s.folded = " AND ended"
		return s
	case store.EndpointNames:
		s.table, s.column, s.inDelta = "endpoint", "endpoint", endpointOfDelta
		return s
	case store.DeadNames:
		s.table, s.deltas, s.count = "dead_group", "lane IS NULL", "dead"
	case store.LaneNames:
		s.endpoint = q.Endpoint
	}
	if q.Topic != "" {
		prefix := job.LanePrefix(q.Topic)
		s.begin, s.end = max(prefix, q.From), behindPrefix(prefix)
	}
	return s
}

// behindNames is behind all names. Without a second bound, a plan for any values would read to the end of the table.
const behindNames = "\U0010FFFF"

// behindPrefix is the first text behind all that begin with the prefix, which ends in an ASCII character.
func behindPrefix(prefix string) string {
	last := len(prefix) - 1
	return prefix[:last] + string(rune(prefix[last]+1))
}

// text makes a text that a client may have forged one that PostgreSQL takes. It keeps the order of names, which contain
// neither the replaced characters nor their replacements.
func text(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, behindNames), "\x00", "\x01")
}

// Names reads names.
func (s *Store) Names(ctx context.Context, q store.NameQuery) ([]string, error) {
	switch q.Kind {
	case store.BusyNames:
		return s.busiest(ctx, q.N)
	case store.DueNames:
		return s.lanesDue(ctx, &q)
	}
	of := sectionOf(&q)
	var all []string
	for {
		some, behind, err := s.names(ctx, &of, q.N)
		if err != nil {
			return nil, err
		}
		if all = append(all, some...); behind == "" || len(all) >= q.N {
			return all[:min(q.N, len(all))], nil
		}
		of.begin = behind
	}
}

// names returns names of a section in order. It looks at n folded ones: behind is where to go on, or empty at the end.
func (s *Store) names(ctx context.Context, of *section, n int) (names []string, behind string, err error) {
	where := func(column string) string {
		return column + " >= $1 AND " + column + " < $3"
	}
	lanes, deltas := "", ""
	args := []any{text(of.begin), n, of.end}
	if of.endpoint != "" {
		args = append(args, of.endpoint)
		lanes, deltas = " AND endpoint = $4", " AND "+endpointOfDelta+" = $4"
	}
	_, err = s.ask(ctx, func(b *pgx.Batch) {
		folded, beyond := 0, 0 // names up to the last folded one
		names, behind = nil, ""
		q := b.Queue(s.sql(`SELECT name, sum(n) > 0, bool_or(folded) FROM (
	(SELECT `+of.column+` AS name, `+of.count+` AS n, true AS folded FROM duehook.`+of.table+`
		WHERE `+where(of.column)+of.folded+lanes+` ORDER BY `+of.column+` LIMIT $2)
	UNION ALL SELECT `+of.inDelta+`, `+of.count+`, false FROM duehook.delta WHERE `+of.deltas+` AND `+where(of.inDelta)+deltas+`
) AS counted GROUP BY name ORDER BY name`), args...)
		q.Query(func(rows pgx.Rows) error {
			var name string
			var exists, isFolded bool
			_, err := pgx.ForEachRow(rows, []any{&name, &exists, &isFolded}, func() error {
				if exists {
					names = append(names, name)
				}
				if isFolded {
					folded++
					behind, beyond = name+"\x00", len(names)
				}
				return nil
			})
			if folded < n {
				behind = ""
			} else {
				names = names[:beyond] // there may be folded ones between the others
			}
			return err
		})
	})
	return names, behind, err
}

// busiest returns the n topics with the most unfinished jobs. Topics whose folded counts differ by less than a sixteenth count as equal.
func (s *Store) busiest(ctx context.Context, n int) (names []string, err error) {
	_, err = s.ask(ctx, func(b *pgx.Batch) {
		b.Queue(s.sql(`WITH changed AS MATERIALIZED (
	SELECT `+topicOfDelta+` AS topic, sum(`+unfinished+`) AS n FROM duehook.delta WHERE lane IS NOT NULL GROUP BY 1
), folded AS (
	SELECT topic, `+unfinished+` AS n FROM duehook.topic WHERE size > 0 ORDER BY size DESC LIMIT $1 + (SELECT count(*) FROM changed)
)
SELECT topic FROM (
	SELECT topic, f.n + coalesce(c.n, 0) AS n FROM folded AS f LEFT JOIN changed AS c USING (topic)
	UNION SELECT topic, c.n + coalesce(`+unfinished+`, 0) FROM changed AS c LEFT JOIN duehook.topic USING (topic)
) AS counted WHERE n > 0 ORDER BY n DESC, topic LIMIT $1`), n).Query(textColumn(&names))
	})
	return names, err
}

// lanesDue returns up to N lanes with due jobs, by name. Those are among the lanes that are looked at before that time, and those that are put off.
func (s *Store) lanesDue(ctx context.Context, q *store.NameQuery) (names []string, err error) {
	of := sectionOf(q)
	_, err = s.ask(ctx, func(b *pgx.Batch) {
		b.Queue(s.sql(`SELECT name FROM (
	(SELECT lane, name FROM duehook.lane WHERE `+visitAt+` < $3 AND head < $3 ORDER BY `+visitAt+` LIMIT $4)
	UNION (SELECT lane, name FROM duehook.lane WHERE held > 0 AND head < $3 ORDER BY head LIMIT $4)
	UNION SELECT lane, name FROM duehook.delta WHERE lane IS NOT NULL
) AS l WHERE name >= $1 AND name < $2
	AND EXISTS (SELECT FROM duehook.job WHERE job.lane = l.lane AND bucket = 1 AND wake < $3)
ORDER BY name LIMIT $4`), text(of.begin), of.end, int64(q.Before), q.N).Query(textColumn(&names))
	})
	return names, err
}

// textColumn reads rows of one text.
func textColumn(into *[]string) func(pgx.Rows) error {
	return func(rows pgx.Rows) (err error) {
		*into, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	}
}
