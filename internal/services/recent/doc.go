// Package recent reports recent attempts on all nodes: for each minute of the last hour,
// how many succeeded and how late they began; and the health of endpoints.
//
// Each node counts its attempts in memory. With other nodes, it writes its counts into a
// document every ten seconds, if there were attempts, and reads the documents of the
// others on request. An idle system writes nothing, and the figures of a dead node remain
// for the hour. The figures are for people: a dying node loses the last seconds of them.
package recent
