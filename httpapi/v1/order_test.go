package v1

import (
	"slices"
	"testing"
)

func TestOrderKeys(t *testing.T) {
	a := newAPI(t)
	for _, id := range []string{"first", "second", "third"} {
		got := a.want(201, "POST", "/v1/jobs", `{"url":"https://shop.example/hook","topic":"t","id":"`+id+`","order_key":"customer-17","delay":"1h"}`)
		if got["order_key"] != "customer-17" {
			t.Errorf("registered %v", got)
		}
	}
	a.want(201, "POST", "/v1/jobs", `{"url":"https://shop.example/hook","topic":"t","id":"free","delay":"1h"}`)
	if got := a.want(200, "GET", "/v1/jobs/t/free", ""); got["order_key"] != nil {
		t.Errorf("without an order key: %v", got)
	}
	if ids, _ := a.pages("topic=t&order_key=customer-17"); len(ids) != 3 || slices.Contains(ids, "free") {
		t.Errorf("listed %v", ids)
	}
	explained := a.want(200, "GET", "/v1/jobs/t/third/explain", "")
	found := false
	for _, r := range explained["reasons"].([]any) {
		if reason := r.(map[string]any); reason["code"] == "order_key" {
			found = true
			params := reason["sentences"].([]any)[0].(map[string]any)["params"].(map[string]any)
			if params["job"] != "first" || params["key"] != "customer-17" {
				t.Errorf("it waits for %v", params)
			}
		}
	}
	if !found {
		t.Errorf("explained %v", explained["reasons"])
	}
	a.want(409, "POST", "/v1/jobs", `{"url":"https://shop.example/hook","topic":"t","id":"first","order_key":"other","on_conflict":"replace"}`)
}
