package qstash

import (
	"strings"
	"time"
	"unicode/utf8"

	"github.com/duehook/duehook/internal/job"
)

const (
	messagePrefix = "msg_"
	dlqPrefix     = "dlq_"
)

// messageID is the id of the job's message: the one that the client chose, or one of the uid.
func messageID(j *job.Job) string {
	if id := settingsOf(j.Spec.Dialect).ID; id != "" && id == j.ID {
		return id
	}
	return messagePrefix + j.UID
}

// dlqID is the id of the message as a dead letter.
func dlqID(j *job.Job) string { return dlqPrefix + j.UID }

// shared is what messages, dead letters, schedules and events have in common, if it is set.
type shared struct {
	TopicName             string              `json:"topicName,omitempty"`
	EndpointName          string              `json:"endpointName,omitempty"`
	QueueName             string              `json:"queueName,omitempty"`
	ScheduleID            string              `json:"scheduleId,omitempty"`
	Callback              string              `json:"callback,omitempty"`
	FailureCallback       string              `json:"failureCallback,omitempty"`
	CallbackHeader        map[string][]string `json:"callbackHeader,omitempty"`
	FailureCallbackHeader map[string][]string `json:"failureCallbackHeader,omitempty"`
	RetryDelayExpression  string              `json:"retryDelayExpression,omitempty"`
	Label                 string              `json:"label,omitempty"`
	Labels                []string            `json:"labels,omitempty"`
	FlowControlKey        string              `json:"flowControlKey,omitempty"`
	Parallelism           int                 `json:"parallelism,omitempty"`
	Rate                  int                 `json:"rate,omitempty"`
	Period                int64               `json:"period,omitempty"` // seconds
	CallerIP              string              `json:"callerIP,omitempty"`
}

// sharedBy are the common parts of a job and of the template of a schedule.
func sharedBy(topic string, labels []string, set settings, on func(job.CallbackEvent) (job.Destination, []job.Header)) shared {
	v := shared{CallerIP: set.CallerIP, RetryDelayExpression: set.RetryDelay, Labels: labels, QueueName: queueOf(topic)}
	if len(labels) > 0 {
		v.Label = labels[0]
	}
	if f := set.Flow; f != nil {
		v.FlowControlKey, v.Parallelism, v.Rate, v.Period = f.Key, f.Parallelism, f.Rate, int64(max(f.Period, time.Second)/time.Second)
	}
	for _, each := range []struct {
		on  job.CallbackEvent
		url *string
		to  *map[string][]string
	}{{job.CallbackDelivered, &v.Callback, &v.CallbackHeader}, {job.CallbackDead, &v.FailureCallback, &v.FailureCallbackHeader}} {
		url, given := on(each.on)
		if *each.url = string(url); len(given) > 0 {
			*each.to = headers(given, "")
		}
	}
	return v
}

// message as clients see it.
type messageView struct {
	MessageID  string              `json:"messageId"`
	URL        string              `json:"url"`
	Method     string              `json:"method"`
	Header     map[string][]string `json:"header"`
	Body       string              `json:"body,omitempty"`
	BodyBase64 []byte              `json:"bodyBase64,omitempty"`
	MaxRetries int                 `json:"maxRetries"`
	NotBefore  int64               `json:"notBefore"`
	CreatedAt  int64               `json:"createdAt"`
	shared
}

// viewOf shows a message.
func viewOf(j *job.Job) messageView {
	s := &j.Spec
	v := messageView{
		MessageID: messageID(j), URL: string(s.Destination), Method: s.HTTPMethod(), Header: headers(s.Headers, s.ContentType),
		NotBefore: int64(j.DueAt), CreatedAt: int64(j.CreatedAt),
		shared: sharedBy(j.Topic, labelsOf(s.Labels), settingsOf(s.Dialect), func(e job.CallbackEvent) (job.Destination, []job.Header) {
			if to := s.Callbacks.On(e); to != nil {
				return to.Destination, to.Headers
			}
			return "", nil
		}),
	}
	body := s.Body
	if s.Reports != "" { // it is made when the callback is sent
		body, _ = renderCallback(j)
	}
	v.Body, v.BodyBase64 = bodyOf(body)
	if s.Retry != nil && s.Retry.Limit != nil {
		v.MaxRetries = *s.Retry.Limit
	}
	if j.State == job.Retrying {
		v.NotBefore = int64(j.NextAt)
	}
	if s.Group != nil {
		v.TopicName, v.EndpointName = s.Group.Group, endpointName(j.Member())
	}
	if s.Occurrence != nil {
		v.ScheduleID = s.Occurrence.Schedule
	}
	return v
}

// bodyOf is a body as text, if it is one.
func bodyOf(body []byte) (text string, other []byte) {
	if utf8.Valid(body) {
		return string(body), nil
	}
	return "", body
}

// headers are headers with lists of values.
func headers(list []job.Header, contentType string) map[string][]string {
	all := make(map[string][]string, len(list)+1)
	for _, h := range list {
		all[h.Name] = []string{h.Value}
	}
	if contentType != "" {
		all["Content-Type"] = []string{contentType}
	}
	return all
}

// deadView is a dead letter.
type deadView struct {
	messageView
	DLQID              string              `json:"dlqId"`
	ResponseStatus     int                 `json:"responseStatus"`
	ResponseHeader     map[string][]string `json:"responseHeader,omitempty"`
	ResponseBody       string              `json:"responseBody,omitempty"`
	ResponseBodyBase64 []byte              `json:"responseBodyBase64,omitempty"`
}

func deadViewOf(j *job.Job) deadView {
	v := deadView{messageView: viewOf(j), DLQID: dlqID(j)}
	if a := j.LastAttempt; a != nil {
		v.ResponseStatus, v.ResponseHeader, v.ResponseBody = a.Status, headers(a.ResponseHeaders, ""), a.ResponseBody
	}
	return v
}

// queueOf is the queue of a topic, or empty.
func queueOf(topic string) string {
	queue, _ := strings.CutPrefix(topic, queuePrefix)
	if queue == topic {
		return ""
	}
	return queue
}
