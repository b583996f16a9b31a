// Package alerts watches figures of a store against rules, and tells of those
// that go wrong: by a webhook, which is a job of the topic Topic and so is
// signed, retried and kept like any other, and by a metric.
//
// Rules are documents of the store, or follow from the settings of topics, which
// are documents, too. So is what is known of each rule's subjects: since when a
// value is above its threshold, and which webhooks are still to be registered.
// One node at a time evaluates. Each of its steps writes the document of the
// version that it read, together with the webhooks that follow from the step;
// only then are these registered, under names that follow from the alert. So
// neither a node that dies in between nor two that evaluate at once make a
// webhook come twice or not at all.
//
// What fails within a window is counted by each node and told to all of them,
// so that another node can go on evaluating. Alerts never look at the topic of
// their own webhooks.
package alerts
