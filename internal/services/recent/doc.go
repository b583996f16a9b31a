// Package recent reports recent attempts on all nodes: for each minute of the last hour,
// how many succeeded and how late they began; series of the last hour and day, of all jobs and
// of the busiest topics and endpoints; and the health of endpoints.
//
// Each node counts its attempts in memory, and writes its counts into documents, if there were
// attempts: every ten seconds those of the last hour, every minute its series. It reads the
// documents of the others, and its own of before a restart, on request. An idle system writes nothing, and the figures of a dead
// node remain for an hour, its series for a day. The figures are for people: a dying node loses
// the last seconds of them.
package recent
