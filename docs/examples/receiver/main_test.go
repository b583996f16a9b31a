package main

import (
	"bytes"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestReceiverPrintsAndAnswers(t *testing.T) {
	var out bytes.Buffer
	req := httptest.NewRequest("POST", "/hook", strings.NewReader(`{"a":1}`))
	for name, value := range map[string]string{
		"webhook-id": "01J", "Duehook-Topic": "t", "Duehook-Job-Id": "j", "Duehook-Attempt": "2",
		"Duehook-Due-At": "2026-01-01T09:00:00.000Z",
	} {
		req.Header.Set(name, value)
	}
	answer := httptest.NewRecorder()
	receiver{status: 503, out: &out}.ServeHTTP(answer, req)
	if answer.Code != 503 {
		t.Errorf("answered %d, want 503", answer.Code)
	}
	want := "t/j, attempt 2, due at 2026-01-01T09:00:00.000Z, webhook-id 01J: {\"a\":1}\n"
	if out.String() != want {
		t.Errorf("printed %q, want %q", out.String(), want)
	}
}
