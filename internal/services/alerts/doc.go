// Package alerts evaluates rules on figures of the store, and notifies of alerts by a
// metric and a webhook. The webhook is a job of the topic Topic, so it is signed, retried
// and kept like all jobs.
//
// Rules are documents of the store. The alerts of a rule are a document, too, with what is
// still to be told of them. One node at a time evaluates. Each step writes the version of the
// document that it read. Only then does it register webhooks, with ids that derive from the
// alert. So neither a crash in between nor two nodes that evaluate at once lose or repeat a
// webhook.
//
// Each node publishes its failures to all nodes, so that any of them can take over. Alerts
// ignore the topic of their own webhooks.
package alerts
