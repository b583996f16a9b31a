package docs

import (
	"flag"
	"fmt"
	number "go/constant"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/duehook/duehook/httpapi/decode"
	v1 "github.com/duehook/duehook/httpapi/v1"
	"github.com/duehook/duehook/internal/app"
	"github.com/duehook/duehook/internal/app/groups"
	"github.com/duehook/duehook/internal/app/operations"
	"github.com/duehook/duehook/internal/app/schedules"
	"github.com/duehook/duehook/internal/app/topics"
	stored "github.com/duehook/duehook/internal/documents"
	"github.com/duehook/duehook/internal/inbox"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/job/contract"
	"github.com/duehook/duehook/internal/kit/jsonio"
	"github.com/duehook/duehook/internal/node/dev"
	"github.com/duehook/duehook/internal/schedule"
	"github.com/duehook/duehook/internal/services/access"
	"github.com/duehook/duehook/internal/services/alerts"
	"github.com/duehook/duehook/internal/services/signing"
	"github.com/duehook/duehook/retrypolicy"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/listing"
	"github.com/duehook/duehook/store/rules"
)

var update = flag.Bool("update", false, "write the tables of docs/limits.md anew")

// limit is a row of docs/limits.md. The values come from the code.
type limit struct{ what, most, more string }

// limits are the tables of docs/limits.md, by the names of their markers.
func limits(t *testing.T) map[string][]limit {
	t.Helper()
	in := func(file, name string) int64 { return constant(t, file, name) }
	setting := func(what, name, more string) limit {
		value, between := settingOf(t, name)
		return limit{what, value, strings.TrimSuffix("`--"+name+"`"+between+"; "+more, "; ")}
	}
	small := v1.MaxRequest(job.Bounds{})
	if v1.MaxRequest(job.Bounds{MaxBody: 1}) != small+2 {
		t.Error("a request is not twice the body and a constant")
	}
	if in("store/diskstore/figures.go", "maxCounted") != in("store/sqlstore/outlook.go", "maxCounted") {
		t.Error("explanations on disk and PostgreSQL count different numbers of jobs")
	}
	request := "twice `--max-body` and " + size(small)
	return map[string][]limit{
		"job": {
			setting("body", "max-body", "413 `body_too_large` beyond it"),
			{"`topic`, `id`, `biz_key`, `order_key`, each", size(job.MaxName), "letters and digits of any script, and `. _ : @ -`"},
			{"URL", size(job.MaxURL), ""},
			{"headers", count(job.MaxHeaders), size(job.MaxHeaderBytes) + " together; a name " + size(job.MaxHeaderName) + ", a value " + size(job.MaxHeaderValue)},
			{"headers of all callbacks together", size(job.MaxHeaderBytes), ""},
			{"content type", size(job.MaxContentType), ""},
			{"`labels`", count(job.MaxLabels), fmt.Sprintf("a key %s characters, a value %s", count(job.MaxLabelKey), count(job.MaxLabelValue))},
			{"`delay`, `at`", duration(job.MaxDelay) + " from now", "a time in the past is due at once"},
			{"`ttl`", duration(job.MaxTTL), ""},
			{"`spread`", duration(job.MaxSpread), "on top of `delay` and `at`"},
			setting("`timeout`, default", "timeout", "at least "+duration(job.MinTimeout)),
			setting("`timeout`, longest", "max-timeout", ""),
			{"steps of `retry`", count(job.MaxRetrySteps), "a step " + duration(job.MaxRetryStep)},
			{"`retry.limit`", count(job.MaxRetryLimit), "retries after the first attempt"},
			{"`expect.body`", size(job.MaxExpectBody), ""},
			{"`priority`", fmt.Sprintf("%d to %d", job.MinPriority, job.MaxPriority), ""},
			{"`count.target`", count(job.MaxTarget), ""},
			{"`add` of one count", count(job.MaxAdd), ""},
			{"count", count(job.MaxCount), "a higher one stays there"},
			{"keys of counts that a job remembers", count(job.MaxCountKeys), fmt.Sprintf("a key %s characters; 409 `too_many_count_keys`", count(job.MaxCountKey))},
			{"attempts in the log of a job", count(store.MaxLog), size(store.MaxLogBytes) + " together; the oldest go first"},
			setting("time for which an ended job is kept", "retention", "dead letters stay until they are replayed, discarded or replaced"),
		},
		"delivery": {
			setting("attempts in flight of a node", "workers", fmt.Sprintf("a topic may run %d for each free worker", rules.PerFree)),
			setting("jobs in flight of an endpoint", "endpoint-concurrency", ""),
			{"headers of an answer", size(in("dispatcher/transport.go", "maxHeaderBytes")), count(in("dispatcher/dialer.go", "maxHeaderLines")) + " lines"},
			{"body of an answer that is read", size(in("dispatcher/transport.go", "drainLimit")), fmt.Sprintf("or for %s; with `expect` %s", duration(in("dispatcher/transport.go", "drainTime")), size(contract.ExpectLimit))},
			{"body of an answer that the log keeps", size(contract.ExcerptLimit), ""},
			setting("body of an answer in a callback", "callback-response", ""),
			{"connecting, and the TLS handshake, each", duration(in("dispatcher/dialer.go", "dialTimeout")), "never beyond the timeout of the attempt"},
			{"TLS handshake", size(in("dispatcher/dialer.go", "maxHandshakeBytes")), count(in("dispatcher/dialer.go", "maxCertificates")) + " certificates"},
			setting("connections again within an attempt", "connect-retries", ""),
			{"`Retry-After`", duration(in("internal/job/contract/contract.go", "maxRetryAfter")), "a longer one is shortened"},
			{"`Duehook-At`", duration(job.MaxDelay) + " from now", "a later one is brought forward"},
			{"snoozes of a job", count(job.MaxSnoozes), "then a snooze is a failure"},
			{"leases in a row that expire, until a job is given up", count(job.MaxExpiredLeases), fmt.Sprintf("its workers died; the last %d alone", job.MaxExpiredLeases-job.SuspectAfter)},
			setting("failures in a row that open a circuit", "breaker-failures", ""),
			{"circuits that a node remembers", count(in("dispatcher/circuits.go", "maxCircuits")), ""},
			{"endpoints whose failures a node shows", count(in("internal/services/recent/health.go", "maxEndpoints")), ""},
		},
		"call": {
			{"jobs of a batch", count(app.MaxJobs), size(in("httpapi/v1/options.go", "o.MaxBatchBytes, ")) + " together"},
			{"body of the registration of one job", request, "413 `body_too_large`"},
			{"body of other calls", size(in("httpapi/v1/request.go", "maxSmall")), "groups " + size(in("httpapi/v1/groups.go", "maxGroupRequest")) + ", acks and nacks " + size(in("httpapi/v1/pull.go", "maxAnswers"))},
			{"headers of a request", size(in("httpapi/server.go", "maxHeaderBytes")), ""},
			{"nesting of JSON", count(jsonio.MaxNesting), ""},
			{"errors that an answer lists", count(decode.MaxErrors), "in the answer to a batch at least one for each wrong job"},
			{"lanes, groups of dead letters and topics of a listing in an order", count(listing.MaxSortedGroups), "of a shard; 422 `invalid_request`"},
			{"entries of a page", count(in("httpapi/v1/jobs.go", "maxPage")), "jobs also " + size(store.PageBytes)},
			{"time to read the headers of a request", duration(in("httpapi/server.go", "readHeaderTimeout")), "with its body " + duration(in("httpapi/server.go", "readTimeout"))},
			{"idle connection", duration(in("httpapi/server.go", "idleTimeout")), ""},
			{"streams of an HTTP/2 connection", count(in("httpapi/server.go", "maxStreams")), ""},
			setting("memory for clients", "memory-budget", "503 `server_busy`"),
			{"calls that wait for memory", count(in("internal/kit/memory/memory.go", "maxWaiting")), ""},
			{"test deliveries at a time, of a node", count(app.MaxTests), "503 `too_many_tests`"},
			{"message of gRPC", size(in("httpapi/rpc/rpc.go", "maxMessage")), count(in("httpapi/rpc/binary.go", "maxParts")) + " fields and values"},
			{"note of a pause or drain", count(job.MaxNote) + " characters", ""},
		},
		"topic": {
			{"topics", "no limit", "one exists while it has jobs or settings"},
			{"topics with settings", count(topics.MaxTopics), size(topics.MaxAllBytes) + " together; 409 `too_many_topics`"},
			{"`capacity`", count(topics.MaxCapacity), ""},
			{"`rate`", count(topics.MaxRate) + " per second", "at least " + strconv.FormatFloat(topics.MinRate, 'f', -1, 64)},
			{"`concurrency`", count(topics.MaxConcurrency), ""},
			{"`weight`", count(topics.MaxWeight), ""},
			{"groups", count(groups.MaxGroups), size(groups.MaxAllBytes) + " together"},
			{"members of a group", count(groups.MaxMembers), size(groups.MaxBytes) + " together; a name " + size(job.MaxMember)},
			{"jobs that a registration for a group makes", size(app.MaxFanOutBytes), "with headers and callbacks"},
		},
		"store": {
			{"free space below which a disk takes no new jobs", size(in("store/diskstore/room.go", "reserve")), "503 `store_unavailable`; deliveries continue"},
			{"wait of a write for space on the disk", duration(in("store/diskstore/disk.go", "diskPatience")), "then the node ends"},
			setting("replicas of Redis that confirm", "redis-min-replicas", ""),
			setting("wait for them", "redis-replica-wait", "503 `store_unavailable` beyond it"),
			setting("shards on Redis", "shards", "the same on every node"),
			setting("jobs of a topic on the ready list of a shard of Redis", "ready-cap", ""),
			{"a call of Redis", duration(in("store/redisstore/conn.go", "callTimeout")), "503 `store_unavailable`"},
			setting("connections of a node to PostgreSQL", "postgres-connections", "and one for notifications"),
			{"a call of PostgreSQL", duration(in("store/sqlstore/pool.go", "callWait")), "with its repetitions; 503 `store_unavailable`"},
			{"pause between two looks for due jobs on PostgreSQL", duration(in("store/sqlstore/wake.go", "pollWait")), duration(in("store/sqlstore/wake.go", "pollSpread")) + " more or less; a notification ends it"},
			{"jobs whose due times an overview counts", count(in("store/listing/due.go", "maxDue")), "of a shard; `partial_from` says from when on some are missing"},
			{"earlier jobs that `explain` counts, on disk and PostgreSQL", count(in("store/diskstore/figures.go", "maxCounted")), "then the number is a lower bound"},
		},
		"inbox": {
			{"inboxes of a node", count(inbox.MaxInboxes), ""},
			{"request of a row", request, "a larger one stays with its error"},
			{"rows that are read at a time", count(in("internal/inbox/table.go", "maxRows")), size(in("internal/inbox/table.go", "maxBytes")) + " together"},
			setting("longest pause of an idle inbox", "inbox-poll", "a notification of PostgreSQL ends it"),
			{"connections of a node to a database", count(in("internal/inbox/connect.go", "maxConnections")), "and one for notifications"},
			{"a call of the database", duration(in("internal/inbox/connect.go", "callWait")), "then the reader pauses and tries again"},
			{"topics and jobs for which rows wait", count(in("internal/inbox/holds.go", "maxHolds")), ""},
			{"error in a row", size(in("internal/inbox/work.go", "maxError")), ""},
			{"rows of one call to retry or drop", count(inbox.MaxIDs), "or all"},
			{"rows that are counted", count(in("internal/inbox/table.go", "maxCount")), "of each kind: failed, waiting"},
		},
		"schedule": {
			{"schedules", count(schedules.MaxSchedules), size(schedules.MaxAllBytes) + " together; 409 `too_many_schedules`"},
			setting("jobs per second of all schedules", "schedule-rate", fmt.Sprintf("a topic has %s of it", map[int64]string{2: "half", 3: "a third"}[in("internal/app/schedules/rate.go", "topicShare")])),
			{"name", size(schedules.MaxName), ""},
			{"cron expression", count(in("internal/schedule/expression.go", "maxExpression")) + " characters", ""},
			{"`every`", duration(schedule.MaxEvery), "whole seconds, at least " + duration(schedule.MinEvery)},
			{"`jitter`", duration(schedule.MaxJitter), fmt.Sprintf("at most %s occurrences", count(schedule.MaxPending))},
			{"dates of `except`", count(in("internal/app/schedules/draft.go", "maxDates")), ""},
			{"skipped occurrences", count(in("internal/app/schedules/draft.go", "maxSkips")), ""},
			{"`misfire.grace`", duration(in("internal/app/schedules/draft.go", "maxGrace")), "at least 1 s, default " + duration(in("internal/app/schedules/draft.go", "defaultGrace"))},
			{"`max_occurrences`", count(in("internal/app/schedules/draft.go", "maxOccurrences")), ""},
			{"late occurrences that `fire_all` fires", count(schedule.MostLate), ""},
			{"runs that are kept", count(schedules.MaxRuns), size(schedules.MaxRunBytes)},
			{"dead letters in a row, until a schedule pauses", count(in("internal/app/schedules/runlog.go", "maxDead")), ""},
			{"occurrences of a preview", count(schedules.MaxOccurrences), ""},
		},
		"pull": {
			{"jobs of one call, and receipts", count(job.MaxPull), ""},
			{"topics of one call", count(in("httpapi/v1/pull.go", "maxPullTopics")), ""},
			{"`wait`", duration(job.MaxPullWait), ""},
			{"`lease`", duration(job.MaxPullLease), "at least " + duration(job.MinPullLease)},
			{"jobs of an answer", size(in("internal/app/pulls/pulls.go", "maxAnswer")), "but at least one"},
			{"topics for which calls wait, of a node", count(in("internal/app/pulls/waiters.go", "maxTopics")), ""},
			{"`Concurrency` of the Go client", count(in("client/consume.go", "maxConcurrency")), ""},
		},
		"operation": {
			{"rate of an operation", count(operations.MaxRate) + " jobs per second", fmt.Sprintf("default %s", count(operations.DefaultRate))},
			{"operations at a time", count(in("internal/app/operations/run.go", "maxWorking")), ""},
			{"operations that are kept", count(operations.MaxKept), size(operations.MaxAllBytes) + " together"},
			{"count of a dry run", duration(in("internal/app/operations/preview.go", "previewTime")), "then it is a lower bound"},
			{"time for which an ended operation is kept", duration(operations.KeptFor), ""},
			{"alert rules", count(alerts.MaxRules), "a name " + count(alerts.MaxRuleName) + " characters"},
			{"window of an alert rule", duration(alerts.MaxWindow), "at least " + duration(alerts.MinWindow)},
			{"`above` of an alert rule", "below " + count(in("internal/services/alerts/rule.go", "maxAbove")), ""},
			{"subjects of a rule that fire at a time", count(alerts.MaxSubjects), ""},
			{"events that a node passes on in " + duration(in("internal/services/events/hub.go", "flushEvery")), count(in("internal/services/events/hub.go", "maxPending")), "then a `gap`; `registered`, `changed` and `delivered` only up to " + count(in("internal/services/events/hub.go", "routineShare"))},
		},
		"key": {
			{"API keys", count(access.MaxKeys), "of the settings and the store together; 409 `too_many_keys`"},
			{"topics of a key", count(job.MaxTopicSet), ""},
			setting("requests of a key without a rate", "api-rate", ""),
			{"`rate` of a key", count(in("internal/services/access/rate.go", "maxRequests")) + " requests", "in up to " + duration(in("internal/services/access/rate.go", "maxRateWindow"))},
			{"secrets of a topic that sign at a time", count(signing.MaxSecrets), "409 `too_many_secrets`"},
			{"topics with secrets", count(signing.MaxTopics), ""},
			{"signing secret", fmt.Sprintf("%d to %d bytes", signing.MinSecretBytes, signing.MaxSecretBytes), ""},
			{"overlap of a rotation", duration(signing.MaxOverlap), ""},
			{"master key", fmt.Sprintf("%d to %s bytes", stored.MinMasterKeyBytes, count(stored.MaxMasterKeyBytes)), ""},
		},
		"dev": {
			{"sinks", count(dev.MaxSinks), "a name " + size(in("internal/node/dev/sinks.go", "maxName"))},
			{"answers of a sink", count(dev.MaxAnswers), ""},
			{"`delay` of an answer", duration(dev.MaxDelay), ""},
			{"requests that all sinks keep", count(in("internal/node/dev/sinks.go", "maxRequests")), size(in("internal/node/dev/sinks.go", "maxBytes")) + " together"},
			{"speed of the clock", count(dev.MaxSpeed), ""},
			{"real time of one change of the clock", duration(dev.MostWork), "409 `clock_unfinished`"},
			{"line of an import", size(in("internal/cli/import.go", "maxLine")), ""},
		},
	}
}

// chinese has the rows of docs/zh/limits.md: those that clients meet.
var chinese = map[string]string{
	"body": "请求体",
	"`topic`, `id`, `biz_key`, `order_key`, each": "`topic`、`id`、`biz_key`、`order_key`，各",
	"URL":                                    "URL",
	"headers":                                "请求头",
	"`labels`":                               "标签",
	"`delay`, `at`":                          "`delay`、`at`（从现在起）",
	"`ttl`":                                  "`ttl`",
	"`spread`":                               "`spread`",
	"`timeout`, default":                     "`timeout`，默认",
	"`timeout`, longest":                     "`timeout`，最长",
	"steps of `retry`":                       "重试阶梯的级数",
	"`retry.limit`":                          "`retry.limit`",
	"`count.target`":                         "`count.target`",
	"time for which an ended job is kept":    "已结束任务的保留时间",
	"attempts in flight of a node":           "每个节点进行中的尝试",
	"jobs in flight of an endpoint":          "每个端点进行中的任务",
	"body of an answer that is read":         "读取的响应体",
	"body of an answer that the log keeps":   "日志保留的响应体",
	"`Retry-After`":                          "`Retry-After`",
	"`Duehook-At`":                           "`Duehook-At`（从现在起）",
	"snoozes of a job":                       "一个任务的 snooze 次数",
	"failures in a row that open a circuit":  "连续失败多少次后熔断打开",
	"jobs of a batch":                        "一批的任务数",
	"errors that an answer lists":            "一个响应列出的错误",
	"entries of a page":                      "一页的条目",
	"message of gRPC":                        "gRPC 消息",
	"memory for clients":                     "为客户端保留的内存",
	"topics with settings":                   "有设置的主题",
	"`capacity`":                             "`capacity`",
	"`rate`":                                 "`rate`",
	"`concurrency`":                          "`concurrency`",
	"`weight`":                               "`weight`",
	"groups":                                 "分组",
	"members of a group":                     "分组成员",
	"connections of a node to PostgreSQL":    "每个节点到 PostgreSQL 的连接",
	"inboxes of a node":                      "每个节点的收件表",
	"rows that are read at a time":           "一次读取的行",
	"longest pause of an idle inbox":         "两次查看空闲收件表的间隔",
	"schedules":                              "周期计划",
	"jobs per second of all schedules":       "全部周期计划每秒的任务数",
	"`every`":                                "`every`",
	"jobs of one call, and receipts":         "一次调用取出的任务",
	"`wait`":                                 "`wait`",
	"`lease`":                                "`lease`",
	"rate of an operation":                   "批量操作的速率",
	"alert rules":                            "告警规则",
	"API keys":                               "API 密钥",
	"topics of a key":                        "一个密钥的主题",
	"secrets of a topic that sign at a time": "一个主题同时签名的密钥",
}

// TestLimits: the tables of docs/limits.md have the values of the code. With -update it writes them there.
func TestLimits(t *testing.T) {
	tables := limits(t)
	writeTables(t, "limits.md", "| what | limit | setting, notes |\n|---|---|---|\n", tables, func(l limit) string {
		return fmt.Sprintf("| %s | %s | %s |\n", l.what, l.most, l.more)
	})
	used := 0
	writeTables(t, "zh/limits.md", "| 对象 | 上限 | 设置 |\n|---|---|---|\n", tables, func(l limit) string {
		name := chinese[l.what]
		if name == "" {
			return ""
		}
		used++
		setting := regexp.MustCompile("^`--[a-z-]+`").FindString(l.more)
		return fmt.Sprintf("| %s | %s | %s |\n", name, inChinese.Replace(l.most), setting)
	})
	if used != len(chinese) {
		t.Errorf("%d rows have a Chinese name, of %d names", used, len(chinese))
	}
}

// TestLimitsInProse: sentences that repeat a limit have its value.
func TestLimitsInProse(t *testing.T) {
	body, between := settingOf(t, "max-body")
	_, most, _ := strings.Cut(between, " to ")
	attempts := len(retrypolicy.Default().Steps) + 1
	for file, sentence := range map[string]string{
		"docs/limits.md": fmt.Sprintf("How much may a body have? %s by default. How far ahead may a job be? %s. How often is it tried? %s times by default, %s times at most.",
			body, duration(job.MaxDelay), map[int]string{10: "Ten"}[attempts], count(job.MaxRetryLimit+1)),
		"docs/README.md": fmt.Sprintf("[%s, and up to %s by a setting](limits.md#a-job-and-its-body)", body, most),
	} {
		if !strings.Contains(read(t, file), sentence) {
			t.Errorf("%s does not say %q", file, sentence)
		}
	}
}

// inChinese has the words of limits.
var inChinese = strings.NewReplacer(" from now", "", "bytes", "字节", "days", "天", " per second", " 每秒", "jobs", "任务", "no limit", "无限制", " to ", " 到 ")

// writeTables compares the tables of a page, or writes them there.
func writeTables(t *testing.T, file, head string, tables map[string][]limit, row func(limit) string) {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	page, marked := string(content), 0
	for name, rows := range tables {
		opening, closing := "<!-- limits "+name+" -->\n", "<!-- end of limits -->\n"
		before, rest, ok := strings.Cut(page, opening)
		_, after, closed := strings.Cut(rest, closing)
		if !ok || !closed {
			continue
		}
		marked++
		table := head
		for _, l := range rows {
			table += strings.ReplaceAll(row(l), "|  |", "| |")
		}
		page = before + opening + table + closing + after
	}
	if found := strings.Count(page, "<!-- limits "); found != marked || file == "limits.md" && marked != len(tables) {
		t.Errorf("docs/%s has %d tables, of which the test knows %d of %d", file, found, marked, len(tables))
	}
	if *update {
		if err := os.WriteFile(file, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if page != string(content) {
		t.Errorf("the tables of docs/%s are not those of the code: run go test ./docs -run TestLimits -update", file)
	}
}

// constant evaluates a constant that no other package sees. A name with a comma begins an argument.
func constant(t *testing.T, file, name string) int64 {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		t.Fatal(err)
	}
	pattern := `(?m)^\s*(?:const )?` + regexp.QuoteMeta(name) + `\s*=\s*(.+?)\s*(?://.*)?$`
	if strings.HasSuffix(name, ", ") {
		pattern = regexp.QuoteMeta(name) + `([^)\n]+)\)`
	}
	found := regexp.MustCompile(pattern).FindSubmatch(content)
	if found == nil {
		t.Fatalf("%s has no %s", file, name)
	}
	named := regexp.MustCompile(`\b[a-z][A-Za-z]*\b`).ReplaceAllStringFunc(string(found[1]), func(word string) string {
		if word == "time" || word == "app" || word == "groups" {
			return word
		}
		return strconv.FormatInt(constant(t, file, word), 10)
	})
	expression := strings.NewReplacer(
		"time.Hour", "3600000000000", "time.Minute", "60000000000", "time.Second", "1000000000", "time.Millisecond", "1000000",
		"groups.MaxBytes", strconv.Itoa(groups.MaxBytes), "app.MaxJobs", strconv.Itoa(app.MaxJobs),
	).Replace(named)
	value, err := types.Eval(token.NewFileSet(), nil, token.NoPos, expression)
	if err != nil {
		t.Fatalf("%s: %s = %s: %v", file, name, found[1], err)
	}
	n, exact := number.Int64Val(number.ToInt(value.Value))
	if !exact {
		t.Fatalf("%s: %s = %s is no whole number", file, name, found[1])
	}
	return n
}

// settingOf is the default of a setting, and what it may be set to, as docs/settings.md says; node/config holds that
// page against the code.
func settingOf(t *testing.T, name string) (value, between string) {
	t.Helper()
	row := regexp.MustCompile("(?m)^\\| `--" + name + "` \\|[^|]*\\|[^|]*\\| ([^|]*) \\| ([^|]*) \\|").FindStringSubmatch(read(t, "docs/settings.md"))
	if row == nil {
		t.Fatalf("docs/settings.md has no --%s", name)
	}
	if row[2] != "" {
		between = ", " + row[2]
	}
	unit := regexp.MustCompile("`([0-9,.]+)([A-Za-z]*)`")
	spaced := func(text string) string {
		return unit.ReplaceAllStringFunc(text, func(one string) string {
			m := unit.FindStringSubmatch(one)
			n, err := strconv.ParseInt(m[1], 10, 64)
			if err != nil {
				return strings.Trim(one, "`")
			}
			return strings.TrimSpace(count(n) + " " + map[string]string{"d": "days"}[m[2]] + strings.TrimPrefix(m[2], "d"))
		})
	}
	return spaced(row[1]), spaced(between)
}

// count writes a number with commas between thousands.
func count[N int | int64 | float64](n N) string {
	text := strconv.FormatInt(int64(n), 10)
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}

// size writes bytes.
func size[N int | int64](n N) string {
	switch {
	case n >= 1<<20 && n%(1<<20) == 0:
		return count(n>>20) + " MiB"
	case n >= 1<<10 && n%(1<<10) == 0:
		return count(n>>10) + " KiB"
	}
	return count(n) + " bytes"
}

// duration writes a time.
func duration[N time.Duration | int64](n N) string {
	d := time.Duration(n)
	switch day := 24 * time.Hour; {
	case d > day && d%day == 0:
		return count(int64(d/day)) + " days"
	case d >= time.Hour && d%time.Hour == 0:
		return count(int64(d/time.Hour)) + " h"
	case d >= time.Minute && d%time.Minute == 0:
		return count(int64(d/time.Minute)) + " min"
	case d >= time.Second && d%time.Second == 0:
		return count(int64(d/time.Second)) + " s"
	}
	return count(d.Milliseconds()) + " ms"
}
