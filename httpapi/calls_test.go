package httpapi

import "testing"

func TestRegister(t *testing.T) {
	a := newAPI(t)
	j := a.want(201, "POST", "/v1/jobs", `{"url":"https://shop.example/hooks/timeout","id":"a","topic":"t","delay":"30m","body":{"order_id":8812}}`)
	t.Log(j)
	a.want(200, "GET", "/openapi.json", "")
	a.want(200, "GET", "/v1/topics", "")
	a.want(200, "GET", "/v1/topics/t", "")
	a.want(200, "GET", "/v1/jobs", "")
	a.want(200, "GET", "/v1/jobs/t/a", "")
}
