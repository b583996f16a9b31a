package qstash

import (
	"context"
	"net/http"

	"github.com/duehook/duehook/httpapi"
	"github.com/duehook/duehook/internal/services/signing"
)

func (a *api) keys(c *httpapi.Call) error { return a.answerKeys(c, Keys.Keys) }

func (a *api) rotateKeys(c *httpapi.Call) error { return a.answerKeys(c, Keys.Rotate) }

func (a *api) answerKeys(c *httpapi.Call, call func(Keys, context.Context) (signing.KeyPair, error)) error {
	if a.Keys == nil {
		return refused("this server does not sign deliveries: --signing is off")
	}
	pair, err := call(a.Keys, c.Context())
	if err != nil {
		return err
	}
	return c.WriteJSON(http.StatusOK, map[string]string{"current": pair.Current, "next": pair.Next})
}
